// The bill against the memory size, a chart per asymmetry.

const CELL_COLUMNS = [
  ["memory", ({ cell }) => written.memory(cell.trace.sizes[cell.size])],
  ["R", ({ cell }) => written.short(cell.ratio)],
  ["bill", ({ cell }) => written.bill(cell.bill)],
  ["reads", ({ cell }) => figures.reads(cell)],
  ["writes", ({ cell }) => figures.writes(cell)],
];

/** Shades the bills that no policy can reach: from the bound at each memory size down. */
function shadeOutOfReach(ctx, plot, { height }, points) {
  if (points.length === 0) return [];
  const at = points.map(({ x, y }) => [plot.valToPos(x, "x"), plot.valToPos(y, "y")]);
  ctx.fillStyle = colour("grid");
  ctx.beginPath();
  ctx.moveTo(at[0][0], height);
  for (const [x, y] of at) ctx.lineTo(x, y);
  ctx.lineTo(at[at.length - 1][0], height);
  ctx.fill();
  return [{ text: "out of reach", x: at[0][0] + 6, y: height - 10 }];
}

function billSection(choice) {
  const { trace } = choice;
  const modes = [{ name: "Bill", label: "page reads per reference", value: (cell) => cell.bill }];
  if (trace.hasBaseline && trace.policies.length > 1) {
    modes.push({
      name: `Saving against ${report.baseline}`,
      label: "saving in per cent",
      value: (cell) => trace.saving(cell),
    });
  }
  const group = newId("measure");
  const holder = element("div", { class: "charts" });
  let made = [];
  const show = (mode) => {
    for (const chart of made) charts.delete(chart);
    made = trace.asymmetriesInOrder.map((asymmetry) => {
      const ratio = written.short(trace.asymmetries[asymmetry]);
      const points = (policy) =>
        trace.sizesInOrder
          .map((size) => trace.cell(policy, size, asymmetry))
          .filter((cell) => cell !== null)
          .map((cell) => ({ x: Math.log2(trace.sizes[cell.size].frames), y: mode.value(cell), cell }))
          .filter((point) => point.y !== null);
      const bounds = trace.sizesInOrder
        .filter((size) => mode === modes[0] && trace.bound(size, asymmetry) !== null)
        .map((size) => ({ x: Math.log2(trace.sizes[size].frames), y: trace.bound(size, asymmetry) }));
      return new Chart({
        levels: () => bounds.map((point) => point.y),
        under: (ctx, plot, size) => shadeOutOfReach(ctx, plot, size, bounds),
        label: `${mode.name} against memory at R = ${ratio}`,
        caption: `R = ${ratio}`,
        xLabel: "memory in frames",
        yLabel: mode.label,
        xTicks: memoryTicks(trace),
        frame: () => trace.policies.flatMap(points),
        lines: () =>
          trace.policies
            .filter((policy) => view.shows(policy))
            .map((policy) => ({ policy, points: points(policy) })),
        describe: ({ cell }) => described(cell),
        choose: ({ cell }) => choice.choose(cell.size, cell.asymmetry),
        columns: CELL_COLUMNS,
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
