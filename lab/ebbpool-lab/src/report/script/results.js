// The results, looked up by policy, size and asymmetry. Any combination may be missing.

const report = JSON.parse(document.getElementById("data").textContent);

function totals(changes) {
  let total = 0;
  return changes.map((change) => (total += change));
}

class Trace {
  #cells = new Map();
  #timeLines = new Map();
  #least = new Map();

  constructor(data) {
    Object.assign(this, data);
    this.counted = data.references - data.warmup;
    this.sizes = data.sizes.map((size) => ({
      ...size,
      bytes: data.page_size === null ? null : size.frames * data.page_size,
    }));
    for (const [policy, size, asymmetry, reads, writes, left, timeLine, served, overwrites] of data.results) {
      const ratio = data.asymmetries[asymmetry];
      const references = served?.references ?? this.counted;
      const failed = served?.failed ?? null;
      const bill = served?.bill ?? (reads + writes * ratio) / references;
      this.#cells.set(`${policy} ${size} ${asymmetry}`, {
        trace: this,
        policy: data.policies[policy],
        size,
        asymmetry,
        ratio,
        reads,
        overwrites,
        writes,
        left,
        timeLine,
        references,
        failed,
        // A device that failed was not paid for all of the trace.
        bill: failed === null ? bill : null,
        writeBill: served?.write_bill ?? (writes * ratio) / references,
        joules: failed === null ? (served?.joules_per_reference ?? null) : null,
        wear: served?.wear ?? null,
        busyJoules: failed === null ? (served?.busy_joules_per_reference ?? null) : null,
        hostBytes: served?.host_bytes ?? null,
      });
    }
    // Two sizes of as many frames are one, as are two equal prices: their results are the same, and count once.
    const frames = data.sizes.map((size) => size.frames);
    const prices = data.asymmetries.map((ratio, at) => `${ratio} ${data.labels[at]}`);
    const distinct = (values) => [...values.keys()].filter((at) => values.indexOf(values[at]) === at);
    this.sizesInOrder = distinct(frames).sort((a, b) => frames[a] - frames[b]);
    this.asymmetriesInOrder = distinct(prices).sort((a, b) => data.asymmetries[a] - data.asymmetries[b]);
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

  /** A bill in the unit of this trace. */
  inUnit(bill) {
    return bill * this.bill_unit.factor;
  }

  /** What bills are, as a title begins. */
  get title() {
    const { name } = this.bill_unit;
    return `${name.charAt(0).toUpperCase()}${name.slice(1)}`;
  }

  /** What axes say of bills. */
  get unit() {
    return `${this.bill_unit.unit} ${this.bill_unit.per}`;
  }

  changes(asymmetry) {
    return Number.isNaN(Number(this.labels[asymmetry]));
  }

  /** An asymmetry, or how it changes. */
  ratioText(asymmetry) {
    return this.changes(asymmetry) ? this.labels[asymmetry] : written.short(this.asymmetries[asymmetry]);
  }

  /** Where results are from, in a few letters. */
  place(asymmetry) {
    return this.device === null ? `R = ${this.ratioText(asymmetry)}` : "this device";
  }

  /** Whether every bill at an asymmetry is reads + R × writes. */
  isConstant(asymmetry) {
    const close = ({ bill, reads, writes, ratio, references }) =>
      Math.abs(bill - (reads + ratio * writes) / references) <= 1e-9 * bill;
    return this.cells.every((cell) => cell.asymmetry !== asymmetry || cell.bill === null || close(cell));
  }

  /** A number of frames in the form of the trace's memory sizes. */
  memoryOf(frames) {
    return { text: String(frames), frames, bytes: this.page_size === null ? null : frames * this.page_size };
  }

  /** The name of the memory's axis, which has the ticks of memoryTicks(). */
  get memoryLabel() {
    const shares = this.sizes.some((size) => size.text.endsWith("%"));
    const frames = shares ? "share and frames" : "frames";
    if (this.page_size === null) return shares ? `memory: ${frames}` : "memory in frames";
    return `memory: ${shares ? "share, " : ""}bytes, frames`;
  }

  get hasWear() {
    return this.cells.some((cell) => cell.wear !== null);
  }

  /** The results of the policies shown, the least bill first; without those of devices that failed. */
  ranking(size, asymmetry) {
    return this.policies
      .filter((policy) => view.shows(policy))
      .map((policy) => this.cell(policy, size, asymmetry))
      .filter((cell) => cell !== null && cell.bill !== null)
      .sort((a, b) => a.bill - b.bill);
  }

  /**
   * The best of the policies shown, as the sentences name it: one that knows the future is the best only among its like.
   * Undefined if there is none.
   */
  best(size, asymmetry) {
    const ranking = this.ranking(size, asymmetry);
    return ranking.find((cell) => !this.offline.includes(cell.policy)) ?? ranking[0];
  }

  /** All memory sizes and asymmetries, in pairs. */
  get fields() {
    return this.sizesInOrder.flatMap((size) => this.asymmetriesInOrder.map((asymmetry) => [size, asymmetry]));
  }

  /** The least bill of all policies at a memory size and an asymmetry, of hidden ones too. */
  least(size, asymmetry) {
    const key = `${size} ${asymmetry}`;
    if (!this.#least.has(key)) {
      const bills = this.policies.map((policy) => this.cell(policy, size, asymmetry)?.bill ?? Infinity);
      this.#least.set(key, bills.reduce((a, b) => Math.min(a, b), Infinity));
    }
    return this.#least.get(key);
  }

  /** Over all fields, the mean logarithm of a policy's bill over the least one; infinite where it has no bill at all. */
  distance(policy) {
    const logarithms = this.fields.flatMap(([size, asymmetry]) => {
      const bill = this.cell(policy, size, asymmetry)?.bill ?? null;
      const least = this.least(size, asymmetry);
      return bill !== null && least > 0 ? [Math.log(bill / least)] : [];
    });
    return logarithms.length === 0 ? Infinity : logarithms.reduce((a, b) => a + b, 0) / logarithms.length;
  }

  get hasBaseline() {
    return this.policies.includes(report.baseline);
  }

  /** What a result costs less than the baseline's, in per cent; null where that is not known. */
  saving(cell) {
    const baseline = this.cell(report.baseline, cell.size, cell.asymmetry);
    return cell.bill !== null && baseline?.bill > 0 ? 100 * (1 - cell.bill / baseline.bill) : null;
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
  hitRatio: (cell) => 1 - (cell.reads + cell.overwrites) / cell.references,
  bill: (cell) => (cell.bill === null ? "failed" : written.bill(cell.trace.inUnit(cell.bill))),
  energy: (cell) => (cell.joules === null ? NONE : `${written.bill(1e3 * cell.joules)} mJ`),
  erases: (cell) => (cell.wear === null ? NONE : written.count(cell.wear.erases)),
  amplification: (cell) => {
    const amplification = cell.wear?.write_amplification ?? null;
    return amplification === null ? NONE : amplification.toFixed(3);
  },
  life: (cell) => {
    const life = cell.wear?.life ?? null;
    return life === null ? NONE : `× ${life.toFixed(2)}`;
  },
};

/** The lines that a chart shows of a result. */
function described(cell) {
  const { trace } = cell;
  const lines = [
    ["memory", written.memory(trace.sizes[cell.size])],
    ...(trace.device === null ? [["R", trace.ratioText(cell.asymmetry)]] : []),
    [trace.bill_unit.name, trace.device === null ? figures.bill(cell) : `${figures.bill(cell)} ${trace.bill_unit.unit}`],
  ];
  if (trace.hasBaseline && cell.policy !== report.baseline) {
    lines.push([`saving against ${report.baseline}`, written.saving(trace.saving(cell))]);
  }
  lines.push(
    ["reads", figures.reads(cell)],
    ["writes", figures.writes(cell)],
    ["hit ratio", written.share(figures.hitRatio(cell))],
  );
  if (cell.joules !== null) lines.push(["energy", figures.energy(cell)]);
  if (cell.wear !== null) lines.push(["blocks erased", figures.erases(cell)]);
  return lines;
}
