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
    ["asymmetries R", trace.asymmetries.map(written.short).join(", ")],
  ].filter(([, value]) => value !== null);
  const sentence = trace.sentence.charAt(0).toUpperCase() + trace.sentence.slice(1);
  return [
    element("p", { class: "answer" }, `${sentence}.`),
    element(
      "dl",
      { class: "facts" },
      ...facts.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))),
    ),
  ];
}
