// The recommendation, the answers in sentences, and what the trace is.

/** A sentence in which the recommended policy is bold. */
function answer(text, further, policy) {
  // A policy's name keeps its small letter.
  if (policy !== null && text.startsWith(`${policy} `)) {
    const name = element("b", { class: "named-in" }, policy);
    return element("p", { class: further ? "answer further" : "answer" }, name, ...unbroken(`${text.slice(policy.length)}.`));
  }
  const parts = unbroken(`${text.charAt(0).toUpperCase()}${text.slice(1)}.`);
  return element("p", { class: further ? "answer further" : "answer" }, ...parts);
}

function factsSection(choice) {
  const { trace } = choice;
  const sizes = trace.sizesInOrder.map((at) => trace.sizes[at]);
  const [smallest, largest] = [sizes[0], sizes.at(-1)].map((size) =>
    size === undefined ? null : size.bytes === null ? `${written.count(size.frames)} frames` : `${written.count(size.frames)} frames (${written.bytes(size.bytes)})`);
  const inBytes = (pages) => (trace.page_size === null ? "" : ` (${written.bytes(pages * trace.page_size)})`);
  const facts = [
    ["references", written.count(trace.references)],
    ["of them warm-up", trace.warmup > 0 ? written.count(trace.warmup) : null],
    ["distinct pages", written.count(trace.distinct_pages) + inBytes(trace.distinct_pages)],
    ["pages of the database", trace.database_pages === null ? null : written.count(trace.database_pages) + inBytes(trace.database_pages)],
    ["page size", trace.page_size === null ? null : `${written.count(trace.page_size)} bytes`],
    ["policies", written.count(trace.policies.length)],
    sizes.length === 1 ? ["memory size", smallest] : [`${written.count(sizes.length)} memory sizes`, smallest === null ? NONE : `${smallest} to ${largest}`],
    ["device", trace.device],
    [
      trace.device === null ? "asymmetries R" : "R of the device at first",
      trace.asymmetries.map((_, at) => trace.ratioText(at)).join(", "),
    ],
  ].filter(([, value]) => value !== null);
  return [
    trace.recommends ? element("p", { class: "kicker" }, "Recommendation") : null,
    ...trace.sentences.map((text, at) => answer(text, at > 0, at === 0 ? trace.recommended : null)),
    element(
      "dl",
      { class: "facts" },
      ...facts.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, ...breakable(value)))),
    ),
  ].filter((part) => part !== null);
}
