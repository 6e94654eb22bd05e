// The answer in a sentence, and what the trace is.

function factsSection(choice) {
  const { trace } = choice;
  const facts = [
    ["references", written.count(trace.references)],
    ["of them warm-up", trace.warmup > 0 ? written.count(trace.warmup) : null],
    ["distinct pages", written.count(trace.distinct_pages)],
    ["pages of the database", trace.database_pages === null ? null : written.count(trace.database_pages)],
    ["page size", trace.page_size === null ? null : `${written.count(trace.page_size)} bytes`],
    ["policies", written.count(trace.policies.length)],
    ["memory sizes", written.count(trace.sizes.length)],
    ["device", trace.device],
    [
      trace.device === null ? "asymmetries R" : "R of the device at first",
      trace.asymmetries.map((_, at) => trace.ratioText(at)).join(", "),
    ],
  ].filter(([, value]) => value !== null);
  const sentences = [trace.sentence, trace.lifetime, trace.advice].filter((text) => text !== null);
  return [
    ...sentences.map((text, at) =>
      element("p", { class: at === 0 ? "answer" : "answer further" }, ...unbroken(`${text.charAt(0).toUpperCase()}${text.slice(1)}.`)),
    ),
    element(
      "dl",
      { class: "facts" },
      ...facts.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))),
    ),
  ];
}
