// Puts the page together.

// The sections of a trace in order: a heading, a word on how to read it, and what makes it from the
// trace's `Choice` (an element, or a list of them). Heading and word may depend on the trace; a
// section may be for some traces only.
const SECTIONS = [
  {
    title: (trace) => (trace.sizes.length > MOST_MAPPED ? "Which policy" : "Which policy, where"),
    lead: (trace) =>
      trace.device === null
        ? "R is the cost of a page write in page reads."
        : `What the requests of each policy cost on ${trace.device}.`,
    make: (choice) => {
      const { sizes } = choice.trace;
      const ranking = element("div", {}, choice.chooser(), rankingSection(choice));
      if (sizes.length > MOST_MAPPED) return ranking;
      return element("div", { class: sizes.length > MOST_BESIDE ? "stacked" : "halves" }, bestSection(choice), ranking);
    },
  },
  {
    title: (trace) => `${trace.title} against memory`,
    lead: (trace) =>
      `Lower is better. A click on a point chooses its memory size${trace.device === null ? " and R" : ""} for the other charts.`,
    applies: (trace) => trace.curve === null,
    make: billSection,
  },
  {
    title: "Bill, reads and writes against memory",
    lead: "Lower is better. lru is known at every size; the other policies were run at some, with a sample of the pages where a point gives an error.",
    applies: (trace) => trace.curve !== null,
    make: curveSection,
  },
  {
    title: "Reads against writes",
    lead: (trace) => {
      const lines = "A line per policy, from the smallest memory (right) to the largest (left); the large marks are the chosen size.";
      const asymmetries = trace.asymmetriesInOrder;
      if (asymmetries.every((at) => !trace.isConstant(at))) {
        return `${lines} What a write costs changes over time, so the ${trace.bill_unit.name} does not follow from the two numbers alone.`;
      }
      const where = trace.device === null ? "at the chosen R" : "on this device";
      const not = asymmetries.every((at) => trace.isConstant(at)) ? "" : "; where R changes there are none";
      return `${lines} On a broken line every point has the same ${trace.bill_unit.name} ${where}${not}.`;
    },
    make: tradeOffSection,
  },
  {
    title: (trace) => (trace.on_device.references_per_second === null ? "What the device bears" : "What the device bears in a day"),
    lead: "Bytes that the device reads and writes, how long it lives, and the power that it takes.",
    applies: (trace) => trace.on_device !== null && trace.curve === null,
    make: daySection,
  },
  {
    title: "Wear and lifetime",
    lead: "A block of flash survives a limited number of erases, and is erased when its pages are used up. The fewer pages are programmed for the same references, the longer the device lives.",
    applies: (trace) => trace.hasWear,
    make: wearSection,
  },
  {
    title: "Over time",
    lead: (trace) =>
      `What the references of each interval cost, and the clean pages in memory, at the chosen memory size${trace.device === null ? " and R" : ""}.`,
    applies: (trace) => trace.curve === null,
    make: timeSection,
  },
  {
    title: "The trace itself",
    lead: "A policy can save only what comes back: first references are read in any case, but for writes of whole pages, and pages that are only read cost no writes.",
    make: statisticsSection,
  },
];

function traceSection(trace) {
  const choice = new Choice(trace);
  const id = newId("trace");
  const text = (part) => (typeof part === "function" ? part(trace) : part);
  const sections = SECTIONS.filter(({ applies }) => applies?.(trace) ?? true);
  const parts = sections.map(({ title, lead, make }) =>
    element(
      "section",
      { class: "part" },
      element("h3", {}, text(title)),
      element("p", { class: "lead" }, ...breakable(text(lead))),
      ...[make(choice)].flat().filter((part) => part !== null),
    ),
  );
  return element(
    "section",
    { class: "trace", id, "aria-labelledby": `${id}-name` },
    element("h2", { id: `${id}-name` }, ...breakable(trace.name)),
    ...factsSection(choice),
    ...parts,
  );
}

function appearanceSwitch(button) {
  const names = ["auto", "light", "dark"];
  let at = 0;
  const root = document.documentElement;
  const show = () => {
    root.dataset.appearance = names[at];
    button.textContent = `Appearance: ${names[at]}`;
  };
  button.addEventListener("click", () => {
    at = (at + 1) % names.length;
    show();
  });
  // On paper everything is light, and charts are as wide as the paper.
  const print = (on) => {
    root.toggleAttribute("data-printing", on);
    for (const chart of charts) chart.fit();
  };
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));
  show();
}

const traces = report.traces.map((trace) => new Trace(trace));
view.colour(policiesInColour(traces));
view.paint();
legend(document.getElementById("legend"));
const made = traces.map(traceSection);
const results = document.getElementById("results");
const summary = report.summary === null ? [] : [summarySection(report.summary)];
results.append(...summary, ...made, tableSection(traces));
document.getElementById("contents").append(
  ...summary.map(() => element("a", { href: "#all-traces" }, "All traces")),
  ...made.map((section, at) => element("a", { href: `#${section.id}` }, ...breakable(traces[at].name))),
  element("a", { href: "#all-results" }, "All results"),
);
for (const chart of charts) chart.fit();
view.on("mark policies", () => {
  for (const chart of charts) chart.mark();
});
appearanceSwitch(document.getElementById("appearance"));
