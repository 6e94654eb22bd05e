// What a simulated flash device suffered: erases, write amplification, lifetime.

function wearSection(choice) {
  const { trace } = choice;
  const cells = trace.cells.filter((cell) => cell.wear !== null);
  // Of a device that failed the figures end somewhere on the way.
  const whole = (value) => (cell) => (cell.failed === null && cell.wear !== null ? value(cell) : null);
  const against = trace.compared_with;
  const scale = lifetimeScale(trace);
  const drawn = [
    {
      caption: "Blocks erased",
      yLabel: "blocks per million references",
      value: (cell) => (1e6 * cell.wear.erases) / cell.references,
    },
    {
      caption: "Life of the device, by pages programmed",
      yLabel: `times that under ${against}`,
      value: (cell) => cell.wear.life,
    },
    {
      caption: "Write amplification",
      yLabel: "pages programmed per page written",
      value: (cell) => cell.wear.write_amplification,
    },
    {
      caption: "References until the device is worn out",
      yLabel: `${scale.name} references`,
      value: (cell) => {
        const references = cell.wear.lifetime_references;
        return references === null ? null : references / scale.of;
      },
    },
  ];
  const charts = drawn
    .filter(({ value }) => cells.some((cell) => whole(value)(cell) !== null))
    .map(({ caption, yLabel, value }) =>
      memoryChart(choice, 0, whole(value), {
        label: `${caption} against memory`,
        caption,
        yLabel,
        describe: ({ cell }) => [["memory", written.memory(trace.sizes[cell.size])], ...wearFigures(cell)],
        columns: [
          MEMORY_COLUMN,
          ...WEAR_COLUMNS.map(([name, text]) => [name, ({ cell }) => text(cell)]),
        ],
      }),
    );
  view.on("policies", () => charts.forEach((chart) => chart.update()));
  for (const chart of charts) chart.update();
  return [
    ...wearNotes(cells),
    element("div", { class: "charts" }, ...charts.map((chart) => chart.element)),
    element("div", { class: "apart" }, choice.chooser(), wearTable(choice)),
  ];
}

// Few digits for the lifetime of any device, in the same unit for all policies.
const LIFETIME_SCALES = [
  { of: 1e9, name: "billion" },
  { of: 1e6, name: "million" },
  { of: 1e3, name: "thousand" },
];

function lifetimeScale(trace) {
  const lifetimes = trace.cells.map((cell) => cell.wear?.lifetime_references ?? 0);
  const most = lifetimes.reduce((a, b) => Math.max(a, b), 0);
  return LIFETIME_SCALES.find(({ of }) => most >= of) ?? LIFETIME_SCALES.at(-1);
}

const WEAR_COLUMNS = [
  ["pages programmed", (cell) => (cell.wear === null ? NONE : written.count(cell.wear.programs))],
  ["blocks erased", figures.erases],
  ["write amplification", figures.amplification],
  ["life of the device", figures.life],
  ["references until worn out", (cell) => {
    const references = cell.wear?.lifetime_references ?? null;
    const scale = lifetimeScale(cell.trace);
    return references === null ? NONE : `${+(references / scale.of).toPrecision(3)} ${scale.name}`;
  }],
];

function wearFigures(cell) {
  return WEAR_COLUMNS.map(([name, text]) => [name, text(cell)]).filter(([, text]) => text !== NONE);
}

/** Which results say less than others, and why. */
function wearNotes(cells) {
  const failed = cells.filter((cell) => cell.failed !== null);
  const unsteady = cells.filter((cell) => cell.failed === null && cell.wear.not_steady !== null);
  const many = (some) => `${some.length} of ${cells.length} results`;
  const note = (text) => element("p", { class: "note" }, ...unbroken(text));
  return [
    failed.length === 0 ? null : note(
      `The device did not last to the end of the trace in ${many(failed)}, which are left out of the charts (${failed[0].policy}: ${failed[0].failed}).`,
    ),
    unsteady.length === 0 ? null : note(
      `No steady state was reached in ${many(unsteady)}, so what was programmed and erased is a beginning, and write amplification is not known (${unsteady[0].policy}: ${unsteady[0].wear.not_steady}). precondition=steady, fewer blocks or a longer trace help.`,
    ),
  ];
}

function wearTable(choice) {
  const { trace } = choice;
  const body = element("tbody", {});
  choice.on(() => {
    const rate = (cell) => (cell.failed === null ? cell.wear.programs / cell.references : Infinity);
    const rows = trace.policies
      .filter((policy) => view.shows(policy))
      .map((policy) => trace.cell(policy, choice.size, choice.asymmetry))
      .filter((cell) => cell !== null && cell.wear !== null)
      .sort((a, b) => rate(a) - rate(b));
    body.replaceChildren(...rows.map((cell) => {
      const remark = cell.failed ?? (cell.wear.not_steady === null ? "" : "not steady yet");
      return element(
        "tr",
        { on: { pointerenter: () => view.point(cell.policy), pointerleave: () => view.point(null) } },
        element("th", { scope: "row" }, named(cell.policy)),
        ...[figures.bill, figures.reads, figures.writes, ...WEAR_COLUMNS.map(([, text]) => text)].map((text) =>
          element("td", { class: "number" }, text(cell)),
        ),
        element("td", { class: "remark" }, remark),
      );
    }));
  });
  const heads = [`${trace.bill_unit.name}, ${trace.bill_unit.unit}`, "reads", "writes", ...WEAR_COLUMNS.map(([name]) => name)];
  return element(
    "div",
    { class: "scroll plain" },
    element(
      "table",
      { class: "wear" },
      element("caption", { class: "unseen" }, "Wear of the device under all policies at the chosen memory size, the longest life first"),
      element(
        "thead",
        {},
        element(
          "tr",
          {},
          element("th", { scope: "col" }, "policy"),
          ...heads.map((name) => element("th", { scope: "col", class: "number" }, name)),
          element("th", { scope: "col" }, element("span", { class: "unseen" }, "remark")),
        ),
      ),
      body,
    ),
  );
}
