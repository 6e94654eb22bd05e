// Reads against writes: each policy a line over the memory sizes, and lines of equal bill.

function tradeOffSection(choice) {
  const { trace } = choice;
  const points = (policy) =>
    trace.sizesInOrder
      .map((size) => trace.cell(policy, size, choice.asymmetry))
      .filter((cell) => cell !== null)
      .map((cell) => ({ x: cell.reads / trace.counted, y: cell.writes / trace.counted, cell }));
  // A line of equal bill goes from the left edge down to the bottom or the right edge.
  const equalBills = (ctx, plot, size, [[left, bottom], [right, top]]) => {
    const { ratio } = choice;
    const bills = roundSteps(left + ratio * bottom, right + ratio * top, 9);
    ctx.strokeStyle = colour("contour");
    ctx.fillStyle = colour("quiet");
    ctx.font = FONT;
    ctx.textAlign = "left";
    ctx.textBaseline = "middle";
    ctx.lineWidth = 1;
    ctx.setLineDash([4, 3]);
    const taken = [];
    for (const bill of bills) {
      const start = ratio > 0 ? [left, (bill - left) / ratio] : [bill, top];
      const end = ratio > 0 ? [right, (bill - right) / ratio] : [bill, bottom];
      const [x0, y0] = [plot.valToPos(start[0], "x"), plot.valToPos(start[1], "y")];
      const [x1, y1] = [plot.valToPos(end[0], "x"), plot.valToPos(end[1], "y")];
      ctx.beginPath();
      ctx.moveTo(x0, y0);
      ctx.lineTo(x1, y1);
      ctx.stroke();
      const text = `bill ${written.short(bill)}`;
      const width = ctx.measureText(text).width;
      // The text stands where the line enters the chart, at its left or its upper edge.
      const slope = (y1 - y0) / (x1 - x0);
      const x = ratio > 0 && y0 >= 12 ? 6 : (ratio > 0 ? x0 + (12 - y0) / slope : x0) + 6;
      const y = ratio > 0 && y0 >= 12 ? y0 + slope * (6 + width / 2) - 9 : 10;
      const box = [x - 4, y - 9, x + width + 4, y + 9];
      const clashes = taken.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3]);
      if (clashes || box[1] < 0 || box[3] > size.height || box[2] > size.width) continue;
      taken.push(box);
      ctx.fillText(text, x, y);
    }
  };
  const chart = new Chart({
    label: "Reads against writes",
    height: 400,
    floor: 0,
    floorX: 0,
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
    columns: CELL_COLUMNS,
  });
  choice.on(() => chart.update());
  return [choice.chooser(), chart.element];
}
