// Bill, reads and writes against memory for `ebbpool curve`: lru at every size, the other policies at
// the sizes that were run.

function curveSection(choice) {
  const { trace } = choice;
  const [asymmetry] = trace.asymmetriesInOrder;
  const ratio = trace.asymmetries[asymmetry];
  const charts = [
    { name: "bill", at: 2, unit: trace.unit, of: (reads, writes) => reads + ratio * writes },
    { name: "reads", at: 3, unit: "page reads per reference", of: (reads) => reads },
    { name: "writes", at: 4, unit: "page writes per reference", of: (reads, writes) => writes },
  ].map(({ name, at, unit, of }) => {
    const errors = new Map(trace.curve.errors.map((entry) => [`${trace.policies[entry[0]]} ${entry[1]}`, entry[at]]));
    const point = (frames, reads, writes, error) => ({ x: frames, y: of(reads, writes) / trace.counted, frames, error });
    const points = (policy) =>
      policy === report.baseline
        ? trace.curve.lru.map(([frames, reads, writes]) => point(frames, reads, writes, 0))
        : trace.sizesInOrder.map((size) => {
            const { reads, writes } = trace.cell(policy, size, asymmetry);
            return point(trace.sizes[size].frames, reads, writes, errors.get(`${policy} ${size}`) ?? 0);
          });
    const columns = [
      ["memory", ({ frames }) => `${written.count(frames)} frames`],
      [name, ({ y }) => written.bill(y)],
      ["error", ({ error }) => (error > 0 ? `± ${written.share(error)}` : "exact")],
    ];
    const { limit } = trace.curve;
    const limitLine = (plot) => {
      if (limit?.figure !== name) return {};
      const y = plot.y(limit.most);
      return {
        shapes: [drawing("path", { class: "contour", d: `M0 ${y}H${plot.width}` })],
        texts: [{ text: limit.text, x: 6, y: y - 9 }],
      };
    };
    return new Chart({
      label: `${name} against memory`,
      caption: `${name.charAt(0).toUpperCase()}${name.slice(1)}`,
      xLabel: "memory in frames",
      yLabel: unit,
      xLog: true,
      floor: 0,
      under: limitLine,
      lines: () =>
        trace.policies.filter((policy) => view.shows(policy)).map((policy) => ({ policy, points: points(policy) })),
      describe: (at) => columns.map(([title, text]) => [title, text(at)]),
      columns,
    });
  });
  const update = () => charts.forEach((chart) => chart.update());
  view.on("policies", update);
  update();
  return element("div", { class: "charts" }, ...charts.map((chart) => chart.element));
}
