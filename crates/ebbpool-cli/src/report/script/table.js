// All results in a table that sorts by each column and leaves as CSV.

// What is read, what is sorted by, and what the CSV holds; CSV names are those of `--format csv`.
const COLUMNS = [
  { name: "trace", csv: "trace", value: (cell) => cell.trace.name },
  { name: "policy", csv: "policy", value: (cell) => cell.policy },
  {
    name: "memory",
    csv: "frames",
    value: (cell) => cell.trace.sizes[cell.size].frames,
    text: (cell) => written.memory(cell.trace.sizes[cell.size]),
  },
  { name: "R", csv: "asymmetry", value: (cell) => cell.ratio, text: (cell) => written.short(cell.ratio) },
  { name: "reads", csv: "reads", value: (cell) => cell.reads, text: figures.reads },
  { name: "writes", csv: "writes", value: (cell) => cell.writes, text: figures.writes },
  { name: "dirty left", csv: "dirty_left", value: (cell) => cell.left, text: (cell) => written.count(cell.left) },
  {
    name: "hit ratio",
    csv: "hit_ratio",
    value: figures.hitRatio,
    text: (cell) => written.share(figures.hitRatio(cell)),
  },
  { name: "bill", csv: "cost", value: (cell) => cell.bill, text: (cell) => written.bill(cell.bill) },
  {
    name: `against ${report.baseline}`,
    csv: `saving_percent`,
    value: (cell) => cell.trace.saving(cell),
    text: (cell) => written.saving(cell.trace.saving(cell)),
  },
];

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

function csvOf(cells) {
  const field = (value) => {
    const text = value === null ? "" : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const rows = cells.map((cell) => COLUMNS.map((column) => field(column.value(cell))));
  return [COLUMNS.map((column) => column.csv), ...rows].map((row) => `${row.join(",")}\n`).join("");
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

function save(text, name) {
  const link = element("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function tableSection(traces) {
  let cells = traces.flatMap((trace) => trace.cells);
  const body = element("tbody", {});
  const least = new Set(
    traces.flatMap((trace) => trace.sizesInOrder.flatMap((size) => trace.asymmetriesInOrder.flatMap((asymmetry) => {
      const ranking = trace.cells.filter((cell) => cell.size === size && cell.asymmetry === asymmetry);
      const bill = Math.min(...ranking.map((cell) => cell.bill));
      return ranking.filter((cell) => cell.bill === bill);
    }))),
  );
  const show = () => body.replaceChildren(...cells.map((cell) =>
    element(
      "tr",
      least.has(cell) ? { class: "least" } : {},
      ...COLUMNS.map((column) => {
        const text = (column.text ?? column.value)(cell);
        if (column.csv !== "policy") return element("td", column.text ? { class: "number" } : {}, text);
        return element("th", { scope: "row" }, named(text));
      }),
    ),
  ));
  const heads = COLUMNS.map((column) => {
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
    element("p", { class: "lead" }, "The bill is in page reads per reference. The least of each memory size and R is bold."),
    element(
      "div",
      { class: "controls" },
      button("Copy as CSV", async () => (answer.textContent = await copy(csvOf(cells), field))),
      button("Download CSV", () => save(csvOf(cells), "ebbpool.csv")),
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
