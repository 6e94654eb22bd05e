// The bill against the memory size, a chart per asymmetry.

const MEMORY_COLUMN = ["memory", ({ cell }) => written.memory(cell.trace.sizes[cell.size])];

function cellColumns(trace) {
  return [
    MEMORY_COLUMN,
    ...(trace.device === null ? [["R", ({ cell }) => trace.ratioText(cell.asymmetry)]] : []),
    [trace.bill_unit.name, ({ cell }) => figures.bill(cell)],
    ["reads", ({ cell }) => figures.reads(cell)],
    ["writes", ({ cell }) => figures.writes(cell)],
    ...(trace.cells.some((cell) => cell.joules !== null) ? [["energy", ({ cell }) => figures.energy(cell)]] : []),
  ];
}

/** What a figure of results has in its CSV beside its own two numbers. */
const CELLS_CSV = [
  ["frames", ({ cell }) => cell.trace.sizes[cell.size].frames],
  ["bytes", ({ cell }) => cell.trace.sizes[cell.size].bytes],
  ["asymmetry", ({ cell }) => cell.ratio],
  ["reads", ({ cell }) => cell.reads],
  ["writes", ({ cell }) => cell.writes],
];

/** A chart of a figure of each result against the memory size; `value` is null where there is none. */
function memoryChart(choice, asymmetry, value, options) {
  const { trace } = choice;
  const points = (policy) =>
    trace.sizesInOrder
      .map((size) => trace.cell(policy, size, asymmetry))
      .filter((cell) => cell !== null)
      .map((cell) => ({ x: trace.sizes[cell.size].frames, y: value(cell), cell }))
      .filter((point) => point.y !== null);
  return new Chart({
    xLabel: trace.memoryLabel,
    xLog: true,
    xTicks: () => memoryTicks(trace),
    csv: CELLS_CSV,
    frame: () => trace.sizes.map(({ frames }) => ({ x: frames })),
    lines: () =>
      trace.policies
        .filter((policy) => view.shows(policy))
        .map((policy) => ({ policy, points: points(policy) })),
    describe: ({ cell }) => described(cell),
    choose: ({ cell }) => choice.choose(cell.size, cell.asymmetry),
    columns: cellColumns(trace),
    ...options,
  });
}

/** Shades the bills that no policy can reach: from the bound at each memory size down. */
function shadeOutOfReach(plot, points) {
  if (points.length === 0) return {};
  const at = points.map(({ x, y }) => [plot.x(x), plot.y(y)]);
  const [[first]] = at;
  const places = at.map((place) => place.join(" "));
  return {
    shapes: [drawing("path", { class: "shade", d: `M${first} ${plot.height}L${places.join("L")}V${plot.height}Z` })],
    texts: [{ text: "out of reach", x: first + 6, y: plot.height - 10 }],
  };
}

function billSection(choice) {
  const { trace } = choice;
  const modes = [
    {
      name: trace.title,
      label: trace.unit,
      value: (cell) => (cell.bill === null ? null : trace.inUnit(cell.bill)),
    },
  ];
  if (trace.hasBaseline && trace.policies.length > 1) {
    modes.push({
      name: `Saving against ${report.baseline}`,
      label: "saving in per cent",
      value: (cell) => trace.saving(cell),
      zero: true,
    });
  }
  if (trace.cells.some((cell) => cell.joules !== null)) {
    modes.push({
      name: "Energy",
      label: "mJ per reference",
      value: (cell) => (cell.joules === null ? null : 1e3 * cell.joules),
    });
  }
  const group = newId("measure");
  const holder = element("div", { class: "charts" });
  let made = [];
  const show = (mode) => {
    for (const chart of made) charts.delete(chart);
    made = trace.asymmetriesInOrder.map((asymmetry) => {
      const place = trace.device ?? trace.place(asymmetry);
      const bounds = trace.sizesInOrder
        .filter((size) => mode === modes[0] && trace.bound(size, asymmetry) !== null)
        .map((size) => ({ x: trace.sizes[size].frames, y: trace.inUnit(trace.bound(size, asymmetry)) }));
      return memoryChart(choice, asymmetry, mode.value, {
        levels: () => bounds.map((point) => point.y).concat(mode.zero ? [0] : []),
        under: (plot) => shadeOutOfReach(plot, bounds),
        label: `${mode.name} against memory at ${place}`,
        caption: place,
        yLabel: mode.label,
      });
    });
    holder.replaceChildren(...made.map((chart) => chart.element));
    for (const chart of made) chart.update();
  };
  view.on("policies", () => made.forEach((chart) => chart.update()));
  show(modes[0]);
  const switches = modes.map((mode, at) =>
    element(
      "label",
      {},
      element("input", { type: "radio", name: group, checked: at === 0, on: { change: () => show(mode) } }),
      ` ${mode.name}`,
    ),
  );
  return [modes.length > 1 ? element("div", { class: "controls", role: "group", "aria-label": "What is drawn" }, ...switches) : null, holder];
}
