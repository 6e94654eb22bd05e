// What the trace is like: how often pages come back, and how much of the traffic the hottest take.

// From 0.1 % to 100 %, each power of ten as wide as the other.
const CURVE = { width: 420, height: 210, left: 44, right: 12, top: 10, bottom: 34 };

function curveFigure(caption, across, { of_pages: ofPages, points }) {
  const { width, height, left, right, top, bottom } = CURVE;
  const x = (percent) => left + ((Math.log10(percent) + 1) / 3) * (width - left - right);
  const y = (share) => height - bottom - share * (height - top - bottom);
  const line = points.map(({ percent, share }) => `${x(percent).toFixed(1)} ${y(share).toFixed(1)}`);
  const area = `M${x(points[0].percent)} ${y(0)}L${line.join("L")}L${x(100)} ${y(0)}Z`;
  const text = (anchor, at, across, content) =>
    drawing("text", { x: at, y: across, "text-anchor": anchor }, content);
  const levels = [0, 0.25, 0.5, 0.75, 1];
  const picture = drawing(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, class: "curve", "aria-hidden": "true" },
    ...levels.map((share) => drawing("path", { class: "grid", d: `M${left} ${y(share)}H${width - right}` })),
    drawing("path", { class: "area", d: area }),
    drawing("path", { class: "line", d: `M${line.join("L")}` }),
    ...levels.map((share) => text("end", left - 6, y(share) + 4, `${100 * share} %`)),
    ...[[0.1, "start"], [1, "middle"], [10, "middle"], [100, "end"]].map(([percent, anchor]) =>
      text(anchor, x(percent), height - bottom + 22, `${percent} %`)),
  );
  const rows = points.filter((_, at) => at % 5 === 0).map(({ percent, pages, share }) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, `${percent} %`),
      element("td", {}, written.count(pages)),
      element("td", {}, written.share(share)),
    ),
  );
  const head = [across, "pages", "share of references"];
  return element(
    "figure",
    {},
    element("figcaption", {}, caption),
    picture,
    element("p", { class: "axis" }, `${across}; 100 % are ${written.count(ofPages)} pages`),
    element(
      "details",
      {},
      element("summary", {}, "Numbers"),
      element(
        "div",
        { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
        element(
          "table",
          {},
          element("caption", { class: "unseen" }, caption),
          element("thead", {}, element("tr", {}, ...head.map((name) => element("th", { scope: "col" }, name)))),
          element("tbody", {}, ...rows),
        ),
      ),
    ),
  );
}

function natureSection({ trace }) {
  const { nature } = trace;
  if (nature === null || nature.references === 0) {
    return element("p", {}, "The run was interrupted before the trace was looked at.");
  }
  const share = (value) => (value === null ? NONE : written.share(value));
  const distance = nature.stack_distance;
  const hot = nature.hottest.find(({ percent }) => percent === 10);
  const facts = [
    ["writes", written.share(nature.write_ratio)],
    ["first references", written.share(nature.cold_share)],
    ["immediate repeats", written.share(nature.immediate_repeats / nature.references)],
    ["go on a run", written.share(nature.sequential_share)],
    ["median stack distance", distance === null ? NONE : `${written.count(distance.median)} pages`],
    ["reads to the hottest 10 %", share(hot.read_share)],
    ["writes to the hottest 10 %", share(hot.write_share)],
    ["pages only read", written.count(nature.pages_only_read)],
    ["pages only written", written.count(nature.pages_only_written)],
    ["read and written", written.count(nature.pages_both)],
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
      { class: "charts curves" },
      curveFigure("Hit ratio of LRU", `memory, of ${ofWhat}`, nature.lru_hit_ratio),
      curveFigure("References to the hottest pages", "hottest pages, of the trace's", nature.popularity),
    ),
  ];
}
