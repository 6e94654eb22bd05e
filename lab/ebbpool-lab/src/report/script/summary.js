// What holds for several traces together.

function summarySection({ sentence, heads, rows, notes }) {
  const head = heads.map((text, at) => element("th", { scope: "col", class: at === 0 ? null : "number" }, text));
  const row = ([policy, ...cells]) =>
    element("tr", {}, element("th", { scope: "row" }, named(policy)), ...cells.map((text) => element("td", { class: "number" }, text)));
  return element(
    "section",
    { class: "all", id: "all-traces", "aria-labelledby": "all-traces-name" },
    element("h2", { id: "all-traces-name" }, "All traces"),
    answer(sentence, false, rows[0]?.[0] ?? null),
    element(
      "div",
      { class: "scroll tall", tabindex: 0, role: "region", "aria-labelledby": "all-traces-name" },
      element("table", { class: "results" }, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows.map(row))),
    ),
    // They name traces, such as generators with many parameters.
    ...notes.map((note) => element("p", { class: "lead" }, ...breakable(`${note.charAt(0).toUpperCase()}${note.slice(1)}.`))),
  );
}
