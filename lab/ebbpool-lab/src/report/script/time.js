// How the bill came about over the trace, and how many clean pages each policy holds.

const MOST_INTERVALS = 50;

function timeSection(choice) {
  const { trace } = choice;
  if (trace.times.length < 2) {
    return element("p", {}, "The trace is too short for a course over time: it has a point per 1,000 references.");
  }
  const chosen = () =>
    trace.policies
      .filter((policy) => view.shows(policy))
      .map((policy) => trace.cell(policy, choice.size, choice.asymmetry))
      .filter((cell) => cell !== null && cell.timeLine !== null)
      .map((cell) => ({ cell, line: trace.timeLine(cell) }));
  // Bills of short intervals are noise; counts are totals, so any two moments bound an interval.
  const stride = Math.ceil(trace.times.length / MOST_INTERVALS);
  const since = (values, at) => values[at] - (at >= stride ? values[at - stride] : 0);
  const begin = (at) => (at >= stride ? trace.times[at - stride] : trace.warmup);
  const bills = ({ cell, line }) => {
    const points = [];
    // The first interval is the short one, so that the last ends with the trace.
    for (let at = (trace.times.length - 1) % stride; at < line.reads.length; at += stride) {
      const cost = line.bill === undefined
        ? since(line.reads, at) + cell.ratio * since(line.writes, at)
        : since(line.bill, at) / 1e3;
      points.push({ x: trace.times[at], y: trace.inUnit(cost) / (trace.times[at] - begin(at)), cell, at });
    }
    return points;
  };
  const column = (cell, values) => values.map((y, at) => ({ x: trace.times[at], y, cell, at }));
  const where = ({ at }) => `${written.count(begin(at))} to ${written.count(trace.times[at])}`;
  const bill = new Chart({
    label: `${trace.title} over time`,
    caption: `${trace.title} in each interval`,
    xLabel: "references served",
    yLabel: trace.unit,
    padX: 0,
    lines: () => chosen().map((one) => ({ policy: one.cell.policy, points: bills(one) })),
    describe: (point) => {
      const line = trace.timeLine(point.cell);
      return [
        ["references", where(point)],
        [trace.bill_unit.name, written.bill(point.y)],
        ["reads", written.count(since(line.reads, point.at))],
        ["writes", written.count(since(line.writes, point.at))],
      ];
    },
    columns: [["references", where], [trace.bill_unit.name, (point) => written.bill(point.y)]],
  });
  const anyTarget = trace.time_lines.some((line) => line.target !== undefined);
  let onlyWithTarget = anyTarget;
  const frames = (cell) => trace.sizes[cell.size].frames;
  const clean = new Chart({
    label: "Clean pages over time",
    caption: "Clean pages in memory",
    xLabel: "references served",
    yLabel: "frames",
    padX: 0,
    lines: () =>
      chosen()
        .filter(({ line }) => !onlyWithTarget || line.target !== undefined)
        .flatMap(({ cell, line }) => [
          { policy: cell.policy, points: column(cell, line.clean) },
          { policy: cell.policy, points: column(cell, line.target ?? []), dashed: true },
        ]),
    describe: (point, { dashed }) => {
      const share = written.share(point.y / frames(point.cell));
      return [
        ["after references", written.count(point.x)],
        [dashed ? "target of clean pages" : "clean pages", `${written.count(point.y)} (${share} of memory)`],
      ];
    },
    columns: [
      ["references", (point) => written.count(point.x)],
      ["clean pages", (point) => written.count(point.y)],
    ],
  });
  choice.on(() => [bill, clean].forEach((chart) => chart.update()));
  const controls = choice.chooser();
  if (anyTarget) {
    const box = element("input", {
      type: "checkbox",
      checked: true,
      on: {
        change: () => {
          onlyWithTarget = box.checked;
          clean.update();
        },
      },
    });
    controls.append(element("label", {}, box, " Only policies with a target for clean pages (dotted)"));
  }
  return [controls, element("div", { class: "charts" }, bill.element, clean.element)];
}
