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
            const cell = trace.cell(policy, size, asymmetry);
            return cell && point(trace.sizes[size].frames, cell.reads, cell.writes, errors.get(`${policy} ${size}`) ?? 0);
          }).filter((at) => at !== null);
    const columns = [
      ["memory", ({ frames }) => written.memory(trace.memoryOf(frames))],
      [name, ({ y }) => written.bill(y)],
      ["error", ({ error }) => (error > 0 ? `± ${written.share(error)}` : "exact")],
    ];
    const { limit } = trace.curve;
    const limitLine = (plot) => {
      const shapes = [];
      const texts = [];
      if (limit?.figure === name) {
        const y = plot.y(limit.most);
        shapes.push(drawing("path", { class: "contour", d: `M0 ${y}H${plot.width}` }));
        if (y > 18 && y < plot.height) texts.push({ text: limit.text, x: 6, y: y - 9 });
      }
      if (trace.curve.mark !== null) {
        const [frames, what] = trace.curve.mark;
        const x = plot.x(frames);
        shapes.push(drawing("path", { class: "contour", d: `M${x} 0V${plot.height}` }));
        if (x > 0 && x < plot.width - 50) texts.push({ text: what, x: x + 6, y: plot.height - 9 });
      }
      return { shapes, texts };
    };
    return new Chart({
      label: `${name} against memory`,
      caption: `${name.charAt(0).toUpperCase()}${name.slice(1)}`,
      xLabel: trace.page_size === null ? "memory in frames" : "memory",
      xTicks: trace.page_size === null ? undefined : (low, high, most) => byteTicks(low, high, most, trace.page_size),
      yLabel: unit,
      xLog: true,
      levels: () => (limit?.figure === name ? [limit.most] : []),
      csv: [
        ["frames", ({ frames }) => frames],
        ["bytes", ({ frames }) => trace.memoryOf(frames).bytes],
        ["error", ({ error }) => error],
      ],
      under: limitLine,
      lines: () =>
        trace.policies.filter((policy) => view.shows(policy)).map((policy) => ({ policy, points: points(policy) })),
      describe: (at) => columns.map(([title, text]) => [title, text(at)]),
      choose: ({ frames }) => {
        const size = trace.sizes.findIndex((size) => size.frames === frames);
        if (size >= 0) choice.choose(size, asymmetry);
      },
      columns,
    });
  });
  const update = () => charts.forEach((chart) => chart.update());
  view.on("policies", update);
  update();
  return element("div", { class: "charts" }, ...charts.map((chart) => chart.element));
}
