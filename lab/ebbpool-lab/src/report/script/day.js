// What the device bears in a day: bytes, years, watts, which need to know how many references there are in a second.

const SECONDS_PER_DAY = 86_400;
const DAYS_PER_YEAR = 365;
const MEGABYTE = 1e6;

/** The figures of results under a load: names, values, texts, and notes; `rate` is in references per second, or null. */
function loadFigures(trace, rate) {
  const { on_device: device } = trace;
  const per = rate === null ? "per million references" : "a day";
  const references = rate === null ? 1e6 : rate * SECONDS_PER_DAY;
  const whole = (value) => (cell) => (cell.failed === null ? value(cell) : null);
  const busy = (cell) => (rate * trace.inUnit(cell.bill)) / 1e6;
  const bytesWritten = (cell) => (cell.hostBytes === null ? null : (cell.hostBytes / cell.references) * references);
  const lifeInReferences = (cell) => {
    if (device.endurance !== null && cell.hostBytes > 0) return (device.endurance.host_bytes / cell.hostBytes) * cell.references;
    return cell.wear?.lifetime_references ?? null;
  };
  const figures = [
    {
      name: `MB read ${per}`,
      value: (cell) => (trace.page_size === null ? null : ((cell.reads * trace.page_size) / cell.references) * references / MEGABYTE),
    },
    { name: `MB written ${per}`, drawn: true, value: (cell) => (bytesWritten(cell) === null ? null : bytesWritten(cell) / MEGABYTE) },
    rate === null
      ? { name: "life in billions of references", drawn: true, value: (cell) => (lifeInReferences(cell) ?? NaN) / 1e9 }
      : { name: "years of life", drawn: true, value: (cell) => (lifeInReferences(cell) ?? NaN) / references / DAYS_PER_YEAR },
  ];
  if (trace.bill_unit.name === "time" && rate !== null) {
    figures.push({ name: "busy, %", value: (cell) => 100 * busy(cell) });
    if (device.idle_watts !== null) {
      figures.push({
        name: "watts",
        drawn: true,
        // A device that does not keep up is never idle.
        value: (cell) => (busy(cell) <= 1 && cell.busyJoules !== null ? device.idle_watts + rate * cell.busyJoules : null),
      });
    }
  }
  if (trace.bill_unit.name === "price") {
    figures.push({ name: `$ ${per}`, drawn: true, value: (cell) => (trace.inUnit(cell.bill) / 1e6) * references });
  }
  const known = ({ value }) => {
    const number = whole(value);
    return (cell) => {
      const found = number(cell);
      return found !== null && Number.isFinite(found) ? found : null;
    };
  };
  const checked = figures.map((figure) => ({ ...figure, value: known(figure) }));
  const some = checked.filter(({ value }) => trace.cells.some((cell) => value(cell) !== null));
  const late = trace.bill_unit.name === "time" && rate !== null ? trace.cells.filter((cell) => cell.failed === null && busy(cell) > 1) : [];
  return { figures: some.map((figure) => ({ ...figure, text: (cell) => orNone(written.amount)(figure.value(cell)) })), late };
}

function loadNotes(trace, rate, late) {
  const { endurance, assumption } = trace.on_device;
  const note = (text) => element("p", { class: "note" }, ...unbroken(text));
  const sentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
  return [
    rate === null ? note("How many references there are in a second is not known. With their number above, this says what a day brings, and years.") : null,
    late.length > 0
      ? note(`One request at a time, the device does not keep up with this rate in ${written.count(late.length)} of ${written.count(trace.cells.length)} results: it would be busy for more than all of the time.`)
      : null,
    endurance === null ? null : note(`The device takes ${endurance.text} of writes. What else writes to it is not counted.`),
    assumption === null ? null : note(sentence(assumption)),
  ];
}

function loadTable(choice, figures) {
  const { trace } = choice;
  const rows = trace
    .ranking(choice.size, choice.asymmetry)
    .map((cell) =>
      element(
        "tr",
        { on: { pointerenter: () => view.point(cell.policy), pointerleave: () => view.point(null) } },
        element("th", { scope: "row" }, named(cell.policy)),
        ...figures.map(({ text }) => element("td", { class: "number" }, text(cell))),
      ),
    );
  const heads = figures.map(({ name }) => element("th", { scope: "col", class: "number" }, name));
  return element(
    "div",
    { class: "scroll plain" },
    element(
      "table",
      { class: "wear" },
      element("caption", { class: "unseen" }, "What the device bears under all policies at the chosen memory size"),
      element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "policy"), ...heads)),
      element("tbody", {}, ...rows),
    ),
  );
}

function daySection(choice) {
  const { trace } = choice;
  let rate = trace.on_device.references_per_second;
  const notes = element("div", {});
  const holder = element("div", { class: "charts" });
  const table = element("div", { class: "apart" });
  let made = [];
  let load = loadFigures(trace, rate);
  const follow = () => table.replaceChildren(loadTable(choice, load.figures));
  const show = () => {
    load = loadFigures(trace, rate);
    notes.replaceChildren(...loadNotes(trace, rate, load.late).filter((note) => note !== null));
    for (const chart of made) charts.delete(chart);
    made = load.figures.filter(({ drawn }) => drawn).map(({ name, value, text }) =>
      memoryChart(choice, choice.asymmetry, value, {
        label: `${name} against memory`,
        caption: name.charAt(0).toUpperCase() + name.slice(1),
        yLabel: name,
        describe: ({ cell }) => [["memory", written.memory(trace.sizes[cell.size])], ...load.figures.map((figure) => [figure.name, figure.text(cell)])],
        columns: [MEMORY_COLUMN, [name, ({ cell }) => text(cell)]],
      }));
    holder.replaceChildren(...made.map((chart) => chart.element));
    for (const chart of made) chart.update();
    follow();
  };
  const change = () => {
    const number = Number(field.value);
    rate = field.value.trim() !== "" && Number.isFinite(number) && number > 0 ? number : null;
    show();
  };
  const field = element("input", {
    type: "number",
    class: "rate",
    min: 0,
    step: "any",
    value: rate,
    placeholder: "not known",
    on: { input: change, change },
  });
  const controls = choice.chooser();
  controls.prepend(element("label", {}, "References a second ", field));
  show();
  view.on("policies", () => made.forEach((chart) => chart.update()));
  choice.on(follow);
  return [controls, notes, holder, table];
}
