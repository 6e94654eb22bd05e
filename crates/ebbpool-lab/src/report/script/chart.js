// A chart: uPlot keeps scales, axes and canvas; lines and shapes are drawn here, since a policy's
// results may go back and forth along x. Points are reached by pointer and by arrow keys.

const FONT = "12px system-ui, sans-serif";
const REACH = 28;
const charts = new Set();

class Chart {
  #options;
  #holder;
  #plot = null;
  #tip;
  #at = null;
  #low = [0, 0];
  #high = [1, 1];
  lines = [];

  /**
   * `lines()` gives the lines to draw: {policy, points: [{x, y, cell}], dashed}. `describe(point)`
   * gives the lines of the box at a point; `choose(point)` is called for a click or Enter on one.
   * `levels()` gives further heights that have to be in sight.
   * `under(...)` draws below the lines, and returns the texts to write over them: {text, x, y}.
   */
  constructor(options) {
    this.#options = options;
    this.#tip = element("div", { class: "tip", hidden: true });
    this.#holder = element("div", {
      class: "chart",
      tabindex: 0,
      role: "application",
      "aria-roledescription": "chart",
      "aria-label": `${options.label}. Arrow keys go from point to point; the numbers stand below.`,
      on: {
        keydown: (event) => this.#key(event),
        blur: () => this.#leave(),
      },
    });
    this.#holder.append(this.#tip);
    this.element = element(
      "figure",
      {},
      options.caption ? element("figcaption", {}, options.caption) : null,
      this.#holder,
      this.#numbers(),
    );
    charts.add(this);
    new ResizeObserver(() => this.fit()).observe(this.#holder);
  }

  /** Takes the lines anew: policies or the choice have changed. */
  update() {
    this.#at = null;
    this.#tip.hidden = true;
    this.lines = this.#options.lines().filter((line) => line.points.length > 0);
    const shown = this.lines.flatMap((line) => line.points);
    const every = (this.#options.frame?.() ?? []).concat(shown);
    const span = (values, pad) => {
      const low = values.reduce((a, b) => Math.min(a, b), Infinity);
      const high = values.reduce((a, b) => Math.max(a, b), -Infinity);
      if (low > high) return [0, 1];
      const room = low === high ? Math.max(Math.abs(low) * 0.1, 0.5) : (high - low) * pad;
      return [low - room, high + room];
    };
    const [left, right] = span(every.map((point) => point.x), this.#options.padX ?? 0.05);
    const heights = shown.map((point) => point.y).concat(this.#options.levels?.() ?? []);
    let [bottom, top] = span(heights, 0.07);
    const { floor } = this.#options;
    if (floor !== undefined) bottom = Math.max(bottom, floor);
    if (this.#options.fromZero?.()) bottom = 0;
    this.#low = [floor === undefined ? left : Math.max(left, this.#options.floorX ?? left), bottom];
    this.#high = [right, top];
    this.#plot?.setData([[this.#low[0], this.#high[0]], [null, null]], true);
    this.#refreshNumbers();
  }

  /** Draws again: only marks or the appearance have changed. */
  redraw() {
    this.#plot?.redraw(false, false);
  }

  /** Takes the width that there is. */
  fit() {
    const width = Math.floor(this.#holder.clientWidth);
    if (width < 50) return;
    const height = this.#options.height ?? 300;
    if (this.#plot === null) this.#make(width, height);
    else if (this.#plot.width !== width) this.#plot.setSize({ width, height });
  }

  #make(width, height) {
    const axis = {
      stroke: () => colour("quiet"),
      font: FONT,
      labelFont: FONT,
      grid: { stroke: () => colour("grid"), width: 1 },
      ticks: { show: false },
      border: { show: true, stroke: () => colour("rule"), width: 1 },
    };
    const { xLabel, yLabel, xTicks } = this.#options;
    const x = {
      ...axis,
      label: xLabel,
      labelSize: 20,
      size: xTicks ? 40 : 26,
      grid: { ...axis.grid, show: true },
      values: (_, splits) => splits.map((value) => written.short(value)),
      space: 64,
    };
    if (xTicks) {
      x.splits = () => xTicks.map((tick) => tick.at);
      x.values = (plot) => this.#ticksThatFit(plot, xTicks);
      // uPlot would leave out ticks by their distance; those that do not fit lose their text only.
      x.filter = (_, splits) => splits;
    }
    const y = {
      ...axis,
      label: yLabel,
      labelSize: 20,
      size: 50,
      space: 38,
      values: (_, splits) => splits.map((value) => written.short(value)),
    };
    this.#plot = new uPlot(
      {
        width,
        height,
        padding: [10, 20, 0, 4],
        legend: { show: false },
        cursor: { show: false },
        scales: {
          x: { time: false, range: () => [this.#low[0], this.#high[0]] },
          y: { range: () => [this.#low[1], this.#high[1]] },
        },
        series: [{}, { paths: () => null, points: { show: false } }],
        axes: [x, y],
        hooks: { draw: [() => this.#draw()] },
      },
      [[this.#low[0], this.#high[0]], [null, null]],
      this.#holder,
    );
    const over = this.#plot.over;
    over.addEventListener("pointermove", (event) => this.#hover(event));
    // A finger does not hover.
    over.addEventListener("pointerdown", (event) => this.#hover(event));
    over.addEventListener("pointerleave", () => this.#leave());
    over.addEventListener("click", () => this.#choose());
    this.#holder.append(this.#tip);
  }

  #ticksThatFit(plot, ticks) {
    const { ctx } = plot;
    ctx.save();
    ctx.font = FONT;
    let free = -Infinity;
    const texts = ticks.map(({ at, text }) => {
      const middle = plot.valToPos(at, "x");
      const half = Math.max(...text.split("\n").map((line) => ctx.measureText(line).width)) / 2;
      if (middle - half < free) return null;
      free = middle + half + 8;
      return text;
    });
    ctx.restore();
    return texts;
  }

  #place(point) {
    return [this.#plot.valToPos(point.x, "x"), this.#plot.valToPos(point.y, "y")];
  }

  #draw() {
    const { ctx, bbox } = this.#plot;
    const scale = devicePixelRatio;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.translate(bbox.left, bbox.top);
    ctx.scale(scale, scale);
    const size = { width: bbox.width / scale, height: bbox.height / scale };
    const texts = this.#options.under?.(ctx, this.#plot, size, [this.#low, this.#high]) ?? [];
    const { marked } = view;
    // What is marked is drawn last, over the others.
    const order = [...this.lines].sort((a, b) => (a.policy === marked) - (b.policy === marked));
    for (const line of order) this.#drawLine(ctx, line, marked);
    this.#drawTexts(ctx, texts);
    if (this.#at !== null) {
      const [x, y] = this.#place(this.#at.point);
      ctx.beginPath();
      ctx.arc(x, y, 8, 0, 2 * Math.PI);
      ctx.strokeStyle = colour("text");
      ctx.lineWidth = 1.5;
      ctx.setLineDash([]);
      ctx.stroke();
    }
    ctx.restore();
  }

  // Over the lines, and with a rim that keeps the lines off.
  #drawTexts(ctx, texts) {
    ctx.font = FONT;
    ctx.textAlign = "left";
    ctx.textBaseline = "middle";
    ctx.setLineDash([]);
    ctx.lineWidth = 5;
    ctx.lineJoin = "round";
    ctx.strokeStyle = colour("paper");
    ctx.fillStyle = colour("quiet");
    for (const { text, x, y } of texts) {
      ctx.strokeText(text, x, y);
      ctx.fillText(text, x, y);
    }
  }

  #drawLine(ctx, line, marked) {
    const { hue, dash, path, hollow } = marks.get(line.policy);
    const isMarked = line.policy === marked;
    ctx.globalAlpha = marked === null || isMarked ? 1 : 0.16;
    ctx.strokeStyle = colour(hue);
    ctx.lineJoin = "round";
    ctx.lineWidth = (line.dashed ? 1 : 1.6) * (isMarked ? 1.8 : 1);
    ctx.setLineDash(line.dashed ? [1.5, 3] : dash);
    ctx.beginPath();
    for (const point of line.points) ctx.lineTo(...this.#place(point));
    ctx.stroke();
    if (!line.dashed) {
      ctx.setLineDash([]);
      ctx.fillStyle = hollow ? colour("paper") : colour(hue);
      // On a long line a shape here and there will do; lines start theirs at different places.
      const step = line.points.length > 30 ? Math.ceil(line.points.length / 7) : 1;
      const first = (3 * policies.indexOf(line.policy)) % step;
      for (let at = first; at < line.points.length; at += step) {
        const point = line.points[at];
        const radius = (this.#options.emphasised?.(point) ?? true) ? 4 : 2.4;
        ctx.save();
        ctx.translate(...this.#place(point));
        ctx.scale(radius, radius);
        ctx.lineWidth = 1.5 / radius;
        ctx.fill(path);
        ctx.stroke(path);
        ctx.restore();
      }
    }
    ctx.globalAlpha = 1;
  }

  #hover(event) {
    const box = this.#plot.over.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let nearest = null;
    let distance = REACH * REACH;
    for (const line of this.lines) {
      for (const point of line.points) {
        const [px, py] = this.#place(point);
        const away = (px - x) ** 2 + (py - y) ** 2;
        if (away < distance) {
          distance = away;
          nearest = { line, point };
        }
      }
    }
    if (nearest === null) this.#leave();
    else if (nearest.point !== this.#at?.point) this.#go(nearest);
  }

  #go(at) {
    this.#at = at;
    view.point(at.line.policy);
    this.redraw();
    const lines = this.#options.describe(at.point, at.line);
    this.#tip.replaceChildren(
      named(at.line.policy),
      element(
        "dl",
        {},
        ...lines.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]),
      ),
    );
    this.#tip.hidden = false;
    const [x, y] = this.#place(at.point);
    const { over } = this.#plot;
    const left = x + over.offsetLeft;
    const top = y + over.offsetTop;
    const { offsetWidth: width, offsetHeight: height } = this.#tip;
    const right = left + 16 + width <= this.#holder.clientWidth;
    this.#tip.style.left = `${Math.max(0, right ? left + 16 : left - 16 - width)}px`;
    this.#tip.style.top = `${Math.max(0, top - height / 2)}px`;
    return lines;
  }

  #leave() {
    if (this.#at === null) return;
    this.#at = null;
    this.#tip.hidden = true;
    view.point(null);
    this.redraw();
  }

  #choose() {
    if (this.#at !== null) this.#options.choose?.(this.#at.point);
  }

  #key(event) {
    if (event.key === "Escape") return this.#leave();
    if (event.key === "Enter") return this.#choose();
    if (!["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"].includes(event.key)) return;
    event.preventDefault();
    if (this.lines.length === 0 || this.#plot === null) return;
    const next = this.#at === null ? { line: this.lines[0], index: 0 } : this.#step(event.key);
    const at = { line: next.line, point: next.line.points[next.index] };
    const lines = this.#go(at);
    announce(`${at.line.policy}: ${lines.map(([name, value]) => `${name} ${value}`).join(", ")}`);
  }

  #step(key) {
    const { line, point } = this.#at;
    const index = line.points.indexOf(point);
    const last = line.points.length - 1;
    if (key === "Home") return { line, index: 0 };
    if (key === "End") return { line, index: last };
    if (key === "ArrowLeft") return { line, index: Math.max(0, index - 1) };
    if (key === "ArrowRight") return { line, index: Math.min(last, index + 1) };
    const ladder = this.lines
      .map((other) => ({ line: other, index: Math.min(index, other.points.length - 1) }))
      .sort((a, b) => a.line.points[a.index].y - b.line.points[b.index].y);
    const rung = ladder.findIndex((entry) => entry.line === line);
    const to = rung + (key === "ArrowUp" ? 1 : -1);
    return ladder[Math.min(ladder.length - 1, Math.max(0, to))];
  }

  #numbers() {
    const details = element("details", {}, element("summary", {}, "Numbers"));
    details.addEventListener("toggle", () => this.#refreshNumbers());
    this.numbers = details;
    return details;
  }

  /** The chart as a table, made when it is looked at. */
  #refreshNumbers() {
    const { numbers } = this;
    if (!numbers.open) return;
    const { columns } = this.#options;
    const rows = this.lines.flatMap((line) =>
      line.points.map((point) => element(
        "tr",
        {},
        element("th", { scope: "row" }, line.dashed ? `${line.policy}, wanted` : line.policy),
        ...columns.map(([, text]) => element("td", {}, text(point))),
      )),
    );
    const head = ["policy", ...columns.map(([name]) => name)];
    const table = element(
      "table",
      {},
      element("caption", { class: "unseen" }, this.#options.label),
      element("thead", {}, element("tr", {}, ...head.map((name) => element("th", { scope: "col" }, name)))),
      element("tbody", {}, ...rows),
    );
    const region = element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": this.#options.label }, table);
    numbers.querySelector(".scroll")?.remove();
    numbers.append(region);
  }
}

/** Ticks at a trace's memory sizes, which stand at even distances for even factors. */
function memoryTicks(trace) {
  const ticks = new Map();
  for (const at of trace.sizesInOrder) {
    const size = trace.sizes[at];
    const frames = written.count(size.frames);
    const text = size.text.endsWith("%") ? `${written.size(size)}\n${frames}` : frames;
    if (!ticks.has(size.frames)) ticks.set(size.frames, { at: Math.log2(size.frames), text });
  }
  return [...ticks.values()];
}
