// Reads against writes: each policy a line over the memory sizes, and lines of equal bill.

function touches(a, b) {
  return a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
}

function tradeOffSection(choice) {
  const { trace } = choice;
  // Whether a policy's line goes through a box of the chart.
  const crossed = (plot, box) =>
    chart.lines.some(({ points }) => {
      const at = points.map((point) => [plot.x(point.x), plot.y(point.y)]);
      return at.some(([x, y], index) => {
        const [nextX, nextY] = at[index + 1] ?? [x, y];
        // A step every few pixels; the box is larger than that.
        const steps = Math.ceil(Math.hypot(nextX - x, nextY - y) / 4);
        for (let step = 0; step <= steps; step += 1) {
          const share = steps > 0 ? step / steps : 0;
          const [pointX, pointY] = [x + share * (nextX - x), y + share * (nextY - y)];
          if (touches(box, [pointX - 5, pointY - 5, pointX + 5, pointY + 5])) return true;
        }
        return false;
      });
    });
  const points = (policy) =>
    trace.sizesInOrder
      .map((size) => trace.cell(policy, size, choice.asymmetry))
      .filter((cell) => cell !== null && cell.bill !== null)
      .map((cell) => ({ x: cell.reads / trace.counted, y: cell.writes / trace.counted, cell }));
  // A line of equal bill goes from the left edge down to the bottom or the right edge.
  const equalBills = (plot) => {
    // Where R changes, two results with the same reads and writes may have different bills.
    if (!trace.isConstant(choice.asymmetry)) return {};
    const { low: [left, bottom], high: [right, top] } = plot;
    const { ratio } = choice;
    const ends = [left + ratio * bottom, right + ratio * top].map((bill) => trace.inUnit(bill));
    const bills = linearTicks(...ends, 9).map((amount) => amount / trace.bill_unit.factor);
    const shapes = [];
    const taken = [];
    const texts = [];
    for (const bill of bills) {
      const start = ratio > 0 ? [left, (bill - left) / ratio] : [bill, top];
      const end = ratio > 0 ? [right, (bill - right) / ratio] : [bill, bottom];
      const [x0, y0] = [plot.x(start[0]), plot.y(start[1])];
      const [x1, y1] = [plot.x(end[0]), plot.y(end[1])];
      shapes.push(drawing("path", { class: "contour", d: `M${x0} ${y0}L${x1} ${y1}` }));
      const amount = written.short(trace.inUnit(bill));
      const text = trace.device === null ? `bill ${amount}` : `${amount} ${trace.bill_unit.unit}`;
      const width = textWidth(text);
      const slope = (y1 - y0) / (x1 - x0);
      // Where the line enters the chart or leaves it, whichever is free; else it goes without.
      const entry = ratio > 0 ? Math.max(0, x0 + (18 - y0) / slope) + 6 : x0 + 6;
      const exit = plot.width - width - 6;
      const above = (x) => (ratio > 0 ? y0 + slope * (x + width / 2 - x0) - 9 : 10);
      for (const x of [entry, exit]) {
        const y = above(x);
        const box = [x - 5, y - 9, x + width + 5, y + 9];
        const inside = box[0] >= 0 && box[1] >= 0 && box[2] <= plot.width && box[3] <= plot.height;
        if (!inside || taken.some((other) => touches(box, other)) || crossed(plot, box)) continue;
        taken.push(box);
        texts.push({ text, x, y });
        break;
      }
    }
    return { shapes, texts };
  };
  const chart = new Chart({
    label: "Reads against writes",
    height: 400,
    xLabel: "page reads per reference",
    yLabel: "page writes per reference",
    under: equalBills,
    frame: () => trace.policies.flatMap(points),
    lines: () =>
      trace.policies
        .filter((policy) => view.shows(policy))
        .map((policy) => ({ policy, points: points(policy) })),
    emphasised: ({ cell }) => cell.size === choice.size,
    describe: ({ cell }) => described(cell),
    choose: ({ cell }) => choice.choose(cell.size, cell.asymmetry),
    columns: cellColumns(trace),
    csv: CELLS_CSV,
  });
  choice.on(() => chart.update());
  return [choice.chooser(), chart.element];
}
