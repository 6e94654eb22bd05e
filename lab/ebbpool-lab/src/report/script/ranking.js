// All policies at the chosen memory size and asymmetry, the bill split into reads and writes.

function rankingSection(choice) {
  const { trace } = choice;
  const body = element("tbody", {});
  const note = element("p", { class: "axis" });
  choice.on(() => {
    const ranking = trace.ranking(choice.size, choice.asymmetry);
    const most = Math.max(...ranking.map((cell) => cell.bill), Number.MIN_VALUE);
    const missing = trace.policies.filter((policy) => view.shows(policy) && !ranking.some((cell) => cell.policy === policy));
    note.textContent = missing.length === 0 ? "" : `Not known at this size: ${missing.join(", ")}.`;
    body.replaceChildren(...ranking.map((cell) => {
      const part = (kind, value) => {
        const bar = element("span", { class: kind });
        bar.style.width = `${(100 * value) / most}%`;
        bar.style.background = colourOf(cell.policy);
        return bar;
      };
      const writes = cell.writeBill;
      const reads = cell.bill - writes;
      const split = [reads, writes].map((bill) => written.bill(trace.inUnit(bill)));
      return element(
        "tr",
        { on: { pointerenter: () => view.point(cell.policy), pointerleave: () => view.point(null) } },
        element("th", { scope: "row" }, named(cell.policy)),
        element(
          "td",
          { class: "bars", title: `reads ${split[0]}, writes ${split[1]}` },
          element("div", {}, part("reads", reads), part("writes", writes)),
        ),
        element("td", {}, figures.bill(cell)),
        trace.hasBaseline ? element("td", {}, written.saving(trace.saving(cell))) : null,
      );
    }));
  });
  const key = element(
    "span",
    { class: "key" },
    element("i", { class: "reads" }),
    "reads ",
    element("i", { class: "writes" }),
    trace.device === null ? "writes × R" : "writes",
  );
  const head = [
    trace.device === null ? "bill" : trace.bill_unit.unit,
    trace.hasBaseline ? `against ${report.baseline}` : null,
  ].filter((name) => name !== null);
  return element(
    "div",
    {},
    element(
      "table",
      { class: "ranking" },
      element("caption", { class: "unseen" }, "All policies at the chosen memory size and asymmetry"),
      element(
        "thead",
        {},
        element(
          "tr",
          {},
          element("th", { scope: "col" }, "policy"),
          element("th", { scope: "col" }, key),
          ...head.map((name) => element("th", { scope: "col" }, name)),
        ),
      ),
      body,
    ),
    note,
  );
}
