// The results, looked up by policy, size and asymmetry. Any combination may be missing.

const report = JSON.parse(document.getElementById("data").textContent);

function totals(changes) {
  let total = 0;
  return changes.map((change) => (total += change));
}

class Trace {
  #cells = new Map();
  #timeLines = new Map();

  constructor(data) {
    Object.assign(this, data);
    this.counted = data.references - data.warmup;
    for (const [policy, size, asymmetry, reads, writes, left, timeLine] of data.results) {
      const ratio = data.asymmetries[asymmetry];
      this.#cells.set(`${policy} ${size} ${asymmetry}`, {
        trace: this,
        policy: data.policies[policy],
        size,
        asymmetry,
        ratio,
        reads,
        writes,
        left,
        timeLine,
        bill: (reads + writes * ratio) / this.counted,
      });
    }
    const frames = data.sizes.map((size) => size.frames);
    this.sizesInOrder = [...frames.keys()].sort((a, b) => frames[a] - frames[b]);
    this.asymmetriesInOrder = [...data.asymmetries.keys()].sort(
      (a, b) => data.asymmetries[a] - data.asymmetries[b],
    );
  }

  cell(policy, size, asymmetry) {
    return this.#cells.get(`${this.policies.indexOf(policy)} ${size} ${asymmetry}`) ?? null;
  }

  /** The bill that no policy can undercut; null where it was not computed. */
  bound(size, asymmetry) {
    return this.bounds?.[asymmetry * this.sizes.length + size] ?? null;
  }

  get cells() {
    return [...this.#cells.values()];
  }

  /** The results of the policies shown, the least bill first. */
  ranking(size, asymmetry) {
    return this.policies
      .filter((policy) => view.shows(policy))
      .map((policy) => this.cell(policy, size, asymmetry))
      .filter((cell) => cell !== null)
      .sort((a, b) => a.bill - b.bill);
  }

  get hasBaseline() {
    return this.policies.includes(report.baseline);
  }

  /** What a result costs less than the baseline's, in per cent; null where that is not known. */
  saving(cell) {
    const baseline = this.cell(report.baseline, cell.size, cell.asymmetry);
    return baseline !== null && baseline.bill > 0 ? 100 * (1 - cell.bill / baseline.bill) : null;
  }

  /** Totals of reads and writes, and the pools, at each of the trace's `times`. */
  timeLine(cell) {
    if (cell.timeLine === null) return null;
    if (!this.#timeLines.has(cell.timeLine)) {
      const changes = this.time_lines[cell.timeLine];
      const columns = Object.entries(changes).map(([name, values]) => [name, totals(values)]);
      this.#timeLines.set(cell.timeLine, Object.fromEntries(columns));
    }
    return this.#timeLines.get(cell.timeLine);
  }
}

const figures = {
  reads: (cell) => written.count(cell.reads),
  writes: (cell) => written.count(cell.writes),
  hitRatio: (cell) => 1 - cell.reads / cell.trace.counted,
};

/** The lines that a chart shows of a result. */
function described(cell) {
  const { trace } = cell;
  const lines = [
    ["memory", written.memory(trace.sizes[cell.size])],
    ["R", written.short(cell.ratio)],
    ["bill", written.bill(cell.bill)],
  ];
  if (trace.hasBaseline && cell.policy !== report.baseline) {
    lines.push([`saving against ${report.baseline}`, written.saving(trace.saving(cell))]);
  }
  lines.push(
    ["reads", figures.reads(cell)],
    ["writes", figures.writes(cell)],
    ["hit ratio", written.share(figures.hitRatio(cell))],
  );
  return lines;
}
