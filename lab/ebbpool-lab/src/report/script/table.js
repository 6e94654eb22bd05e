// All results in a table that sorts by each column and leaves as CSV.

const orNone = (text) => (value) => (value === null ? NONE : text(value));

// A device's bill in its own unit, with the name that `--format json` has for it.
const BILLS = {
  bill: { csv: "cost", of: (bill) => bill },
  time: { csv: "cost_us", of: (bill, trace) => trace.inUnit(bill) },
  price: { csv: "dollars_per_reference", of: (bill, trace) => trace.inUnit(bill) / 1e6 },
};

/** What is read, what is sorted by, and what the CSV holds; CSV names are those of the results as
 *  `compare` prints them. A column of which nothing is known is left out. */
function columnsOf(traces) {
  const { bill_unit: unit } = traces[0] ?? { bill_unit: { name: "bill", unit: "page reads" } };
  const bill = BILLS[unit.name];
  const extra = (name, csv, value, text) => ({ name, csv, value, text: (cell) => orNone(text)(value(cell)) });
  const extras = [
    extra("energy, mJ", "joules_per_reference", (cell) => cell.joules, (joules) => written.bill(1e3 * joules)),
    extra("blocks erased", "erases", (cell) => cell.wear?.erases ?? null, written.count),
    extra("pages programmed", "programs", (cell) => cell.wear?.programs ?? null, written.count),
    extra("write amplification", "write_amplification", (cell) => cell.wear?.write_amplification ?? null, (value) =>
      value.toFixed(3)),
    extra(`life, × ${traces[0]?.compared_with}`, "life", (cell) => cell.wear?.life ?? null, (life) => life.toFixed(2)),
  ];
  const anywhere = ({ value }) => traces.some((trace) => trace.cells.some((cell) => value(cell) !== null));
  return [
    { name: "trace", csv: "trace", value: (cell) => cell.trace.name },
    { name: "policy", csv: "policy", value: (cell) => cell.policy },
    {
      name: "memory",
      csv: "frames",
      value: (cell) => cell.trace.sizes[cell.size].frames,
      text: (cell) => written.memory(cell.trace.sizes[cell.size]),
    },
    { name: "R", csv: "asymmetry", value: (cell) => cell.ratio, text: (cell) => written.short(cell.ratio) },
    ...[{
      name: "R changes",
      csv: "asymmetry_changes",
      value: (cell) => (cell.trace.changes(cell.asymmetry) ? cell.trace.ratioText(cell.asymmetry) : null),
      text: (cell) => (cell.trace.changes(cell.asymmetry) ? cell.trace.ratioText(cell.asymmetry) : NONE),
    }].filter(anywhere),
    { name: "reads", csv: "reads", value: (cell) => cell.reads, text: figures.reads },
    { name: "writes", csv: "writes", value: (cell) => cell.writes, text: figures.writes },
    { name: "dirty left", csv: "dirty_left", value: (cell) => cell.left, text: (cell) => written.count(cell.left) },
    {
      name: "hit ratio",
      csv: "hit_ratio",
      value: figures.hitRatio,
      text: (cell) => written.share(figures.hitRatio(cell)),
    },
    {
      name: unit.name === "bill" ? "bill" : `${unit.name}, ${unit.unit}`,
      csv: bill.csv,
      value: (cell) => (cell.bill === null ? null : bill.of(cell.bill, cell.trace)),
      text: figures.bill,
    },
    {
      name: `against ${report.baseline}`,
      csv: "saving_percent",
      value: (cell) => cell.trace.saving(cell),
      text: (cell) => written.saving(cell.trace.saving(cell)),
    },
    ...extras.filter(anywhere),
  ];
}

function inOrder(a, b) {
  // What is not known goes last in either direction; see sorted().
  return typeof a === "string" ? a.localeCompare(b, "en") : a - b;
}

function sorted(cells, column, direction) {
  return [...cells].sort((left, right) => {
    const [a, b] = [column.value(left), column.value(right)];
    if (a === null || b === null) return (a === null) - (b === null);
    return direction * inOrder(a, b);
  });
}

function csvOf(cells, columns) {
  const rows = cells.map((cell) => columns.map((column) => column.value(cell)));
  return csvOfRows([columns.map((column) => column.csv), ...rows]);
}

/** Copies by the clipboard's interface, else by the old command, else lets the reader do it. */
async function copy(text, field) {
  try {
    await navigator.clipboard.writeText(text);
    return "Copied";
  } catch {
    field.value = text;
    field.hidden = false;
    field.select();
    if (document.execCommand("copy")) {
      field.hidden = true;
      return "Copied";
    }
    return "Press Ctrl+C or Command+C to copy the text below";
  }
}

function tableSection(traces) {
  let cells = traces.flatMap((trace) => trace.cells);
  const columns = columnsOf(traces);
  // The name of the only trace stands above.
  const shown = columns.filter(({ csv }) => csv !== "trace" || traces.length > 1);
  const body = element("tbody", {});
  const least = new Set(
    traces.flatMap((trace) => trace.sizesInOrder.flatMap((size) => trace.asymmetriesInOrder.flatMap((asymmetry) => {
      const ranking = trace.cells.filter(
        (cell) => cell.size === size && cell.asymmetry === asymmetry && cell.bill !== null,
      );
      const bill = Math.min(...ranking.map((cell) => cell.bill));
      return ranking.filter((cell) => cell.bill === bill);
    }))),
  );
  const show = () => body.replaceChildren(...cells.map((cell) =>
    element(
      "tr",
      least.has(cell) ? { class: "least" } : {},
      ...shown.map((column) => {
        const text = (column.text ?? column.value)(cell);
        if (column.csv === "trace") return element("td", { class: "trace-name" }, ...breakable(text));
        if (column.csv !== "policy") return element("td", column.text ? { class: "number" } : {}, text);
        return element("th", { scope: "row" }, named(text));
      }),
    ),
  ));
  const heads = shown.map((column) => {
    const head = element("th", { scope: "col", class: column.text ? "number" : null });
    const sort = () => {
      const direction = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
      cells = sorted(cells, column, direction);
      show();
    };
    head.append(element("button", { type: "button", on: { click: sort } }, column.name));
    return head;
  });
  show();
  const field = element("textarea", { hidden: true, readonly: true, rows: 6, "aria-label": "Results as CSV" });
  const answer = element("span", { class: "answer-to-copy", role: "status" });
  const button = (text, click) => element("button", { type: "button", on: { click } }, text);
  return element(
    "section",
    { class: "all", "aria-labelledby": "all-results" },
    element("h2", { id: "all-results" }, "All results"),
    element("p", { class: "lead" }, `${traces[0]?.title ?? "Bill"} in ${traces[0]?.unit ?? "page reads per reference"}. The least of each memory size and R is bold.`),
    element(
      "div",
      { class: "controls" },
      button("Copy as CSV", async () => (answer.textContent = await copy(csvOf(cells, columns), field))),
      button("Download CSV", () => saveFile(csvOf(cells, columns), "text/csv", "ebbpool.csv")),
      answer,
    ),
    field,
    element(
      "div",
      { class: "scroll tall", tabindex: 0, role: "region", "aria-labelledby": "all-results" },
      element("table", { class: "results" }, element("thead", {}, element("tr", {}, ...heads)), body),
    ),
  );
}
