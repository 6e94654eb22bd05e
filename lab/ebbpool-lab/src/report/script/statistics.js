// What the trace is like: how often pages come back, and how much of the traffic the hottest take.

function curveChart(caption, across, { of_pages: ofPages, points }) {
  const columns = [
    [across, ({ x }) => `${x} %`],
    ["pages", ({ pages }) => written.count(pages)],
    ["share of references", ({ y }) => written.share(y / 100)],
  ];
  const line = {
    hue: "blue",
    area: true,
    points: points.map(({ percent, pages, share }) => ({ x: percent, y: 100 * share, pages })),
  };
  const chart = new Chart({
    label: caption,
    caption,
    note: `${across}; 100 % are ${written.count(ofPages)} pages`,
    height: 230,
    xLog: true,
    xUnit: " %",
    yUnit: " %",
    padX: 0,
    ceiling: 100,
    levels: () => [0, 100],
    lines: () => [line],
    describe: (point) => columns.map(([name, text]) => [name, text(point)]),
    columns,
  });
  chart.update();
  return chart.element;
}

function statisticsSection({ trace }) {
  const { statistics } = trace;
  if (statistics === null || statistics.references === 0) {
    return element("p", {}, "The run was interrupted before the trace was looked at.");
  }
  const share = (value) => (value === null ? NONE : written.share(value));
  const distance = statistics.stack_distance;
  const hot = statistics.hottest.find(({ percent }) => percent === 10);
  const facts = [
    ["writes", written.share(statistics.write_ratio)],
    ["first references", written.share(statistics.cold_share)],
    ["immediate repeats", written.share(statistics.immediate_repeats / statistics.references)],
    ["go on a run", written.share(statistics.sequential_share)],
    ["median stack distance", distance === null ? NONE : `${written.count(distance.median)} pages`],
    ["reads to the hottest 10 %", share(hot.read_share)],
    ["writes to the hottest 10 %", share(hot.write_share)],
    ["pages only read", written.count(statistics.pages_only_read)],
    ["pages only written", written.count(statistics.pages_only_written)],
    ["read and written", written.count(statistics.pages_both)],
  ];
  const ofWhat = trace.database_pages === null ? "the trace's pages" : "the database";
  return [
    element(
      "dl",
      { class: "facts" },
      ...facts.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))),
    ),
    element(
      "div",
      { class: "charts apart" },
      curveChart("Hit ratio of LRU", `memory, of ${ofWhat}`, statistics.lru_hit_ratio),
      curveChart("References to the hottest pages", "hottest pages, of the trace's", statistics.popularity),
    ),
  ];
}
