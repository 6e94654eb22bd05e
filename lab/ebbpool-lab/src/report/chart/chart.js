// A chart: axes, lines, marks and texts. Points are reached by pointer and by arrow keys; a part of it can be enlarged.

const { layout } = report;
const REACH = 28;
// An axis that would leave more than this share of the chart empty does not begin at zero, and says so.
const MOST_EMPTY = 0.5;
const ZOOM_STEP = 1.5;
const charts = new Set();

const ruler = document.createElement("canvas").getContext("2d");
// The style sheet gives the texts of charts the same font.
ruler.font = `${layout.font}px system-ui, sans-serif`;

function textWidth(text) {
  return ruler.measureText(text).width;
}

/** The least and the greatest value with room on both sides, a share of what lies between them. */
function extent(values, share, isLog = false) {
  const along = isLog ? values.map(Math.log) : values;
  const low = along.reduce((a, b) => Math.min(a, b), Infinity);
  const high = along.reduce((a, b) => Math.max(a, b), -Infinity);
  if (low > high) return isLog ? [1, 10] : [0, 1];
  const single = isLog ? Math.LN2 : Math.max(Math.abs(low) * 0.1, 0.5);
  const room = low === high ? single : (high - low) * share;
  return [low - room, high + room].map((end) => (isLog ? Math.exp(end) : end));
}

class Chart {
  #options;
  #holder;
  #picture;
  #tip;
  #width = 0;
  #at = null;
  #part;
  #fromZero = false;
  #zooming;
  #followZoom;
  #zeroButton;
  #remark = element("span", { class: "cut" });
  #plot = null;
  #group = null;
  #cursor = null;
  #drawn = [];
  lines = [];

  /**
   * `lines()` gives the lines to draw: {policy, points: [{x, y}], dashed}, or {hue, area, points} for
   * a line of no policy. `describe(point, line)` gives the lines of the box at a point; `choose(point)`
   * is called for a click or Enter on one.
   * The x axis is logarithmic with `xLog`, and has the ticks of `xTicks(low, high, most)` ({at, text}) in place of
   * round numbers; `xUnit` and `yUnit` go behind the numbers of the axes. `csv` are further columns of the numbers
   * that can be saved: names, and what a point has there.
   * `frame()` gives further points, and `levels()` further heights, that have to be in sight; `ceiling` is
   * where the vertical axis ends at the latest. Axes of numbers that are not negative begin at zero, or have a break.
   * `under(plot)` gives {shapes, texts}: what to draw below the lines, and texts to write over them
   * ({text, x, y}). `plot` has width and height, the scales x and y, and the axes' ends low and high.
   */
  constructor(options) {
    this.#options = options;
    this.#tip = element("div", { class: "tip", hidden: true });
    this.#picture = drawing("svg", {
      "aria-hidden": "true",
      on: {
        pointermove: (event) => this.#hover(event),
        // A finger does not hover.
        pointerdown: (event) => this.#hover(event),
        pointerleave: () => this.#leave(),
        click: () => this.#choose(),
      },
    });
    this.#holder = element(
      "div",
      {
        class: "chart",
        tabindex: 0,
        role: "application",
        "aria-roledescription": "chart",
        "aria-label": `${options.label}. Arrow keys go from point to point, plus and minus zoom, 0 shows the whole; the numbers stand below.`,
        on: {
          keydown: (event) => this.#key(event),
          blur: () => this.#leave(),
        },
      },
      this.#picture,
      this.#tip,
    );
    this.#holder.style.minHeight = `${this.#height}px`;
    this.element = element(
      "figure",
      {},
      options.caption ? element("figcaption", {}, ...breakable(options.caption), this.#remark) : element("p", { class: "axis" }, this.#remark),
      this.#holder,
      options.note ? element("p", { class: "axis" }, options.note) : null,
      this.#tools(),
      this.#numbers(),
    );
    this.#part = new VisiblePart(options.xLog);
    this.#zooming = new Zooming(this.#picture, {
      area: () => {
        const { left, width, height } = this.#plot;
        return [left, layout.top, left + width, layout.top + height];
      },
      zoomTo: (rectangle) => this.#zoomTo(rectangle),
      zoomBy: (factor, x, y) => this.#zoomBy(factor, x - this.#plot.left, y - layout.top),
      reset: () => this.#showWhole(),
      dragging: () => this.#leave(),
    });
    charts.add(this);
    new ResizeObserver(() => this.fit()).observe(this.#holder);
  }

  get #height() {
    return this.#options.height ?? 300;
  }

  /** Takes the lines anew: policies or the choice have changed. */
  update() {
    const { xLog, padX, ceiling, frame, levels } = this.#options;
    this.#at = null;
    this.#tip.hidden = true;
    this.lines = this.#options.lines().filter((line) => line.points.length > 0);
    const shown = this.lines.flatMap((line) => line.points);
    const every = (frame?.() ?? []).concat(shown);
    const [left, right] = extent(every.map((point) => point.x), padX ?? 0.05, xLog);
    const heights = shown.map((point) => point.y).concat(levels?.() ?? []);
    const [bottom, top] = extent(heights, 0.07);
    const begin = (low, values, high) => {
      const least = Math.min(...values);
      if (!(least >= 0)) return low;
      return this.#fromZero || least <= MOST_EMPTY * high ? 0 : Math.max(low, 0);
    };
    const across = every.map((point) => point.x);
    this.#part.setWhole(
      [xLog ? left : begin(left, across, right), begin(bottom, heights, top)],
      [right, Math.min(top, ceiling ?? top)],
    );
    this.#draw();
    this.#refreshNumbers();
  }

  /** Changes the part of the axes that is in sight. */
  #zoom(change) {
    if (this.#plot === null) return;
    change(this.#part);
    this.#leave();
    this.#draw();
  }

  #zoomTo([left, top, right, bottom]) {
    const { left: from, width, height } = this.#plot;
    const across = [left, right].map((at) => (at - from) / width);
    const up = [bottom, top].map((at) => 1 - (at - layout.top) / height);
    this.#zoom((part) => part.enlarge(across, up));
  }

  /** Zooms around a place in the chart; without one, around the point that the keys have reached, or the middle. */
  #zoomBy(factor, ...place) {
    const { width, height } = this.#plot;
    const [x, y] = place.length > 0 ? place : this.#at === null ? [width / 2, height / 2] : this.#place(this.#at.point);
    this.#zoom((part) => part.zoom(factor, x / width, 1 - y / height));
  }

  #showWhole() {
    this.#zoom((part) => part.reset());
  }

  /** Takes the width that there is. */
  fit() {
    const width = Math.floor(this.#holder.clientWidth);
    if (width < 50 || width === this.#width) return;
    this.#width = width;
    this.#tip.hidden = true;
    this.#at = null;
    this.#draw();
  }

  /** Shows which policy is marked: over the others, which are pale. */
  mark() {
    const { marked } = view;
    for (const { policy, node } of this.#drawn) {
      node.classList.toggle("marked", policy === marked);
      node.classList.toggle("pale", marked !== null && policy !== undefined && policy !== marked);
      node.classList.toggle("grey", policy !== undefined && !view.colours.has(policy) && policy !== marked);
    }
    // From bottom to top: the grey ones, those in colour from the least important to the best, the marked one.
    const ranks = new Map([...view.colours.keys()].reverse().map((policy, at) => [policy, at + 1]));
    const rank = ({ policy }) => (policy === marked ? Infinity : (ranks.get(policy) ?? 0));
    const order = [...this.#drawn].sort((a, b) => (rank(a) === rank(b) ? 0 : rank(a) - rank(b)));
    this.#group?.append(...order.map(({ node }) => node));
  }

  #draw() {
    if (this.#width === 0) return;
    const { xTicks, xLog, xUnit = "", yUnit = "", xLabel, yLabel, under } = this.#options;
    const [width, height] = [this.#width, this.#height];
    const { low, high } = this.#part;
    const isInside = ({ at }) => low[0] * (1 - SLACK) <= at && at <= high[0] * (1 + SLACK);
    const own = xTicks?.(low[0], high[0], Math.floor(width / layout.tick_width)).filter(isInside);
    const rows = own ? Math.max(1, ...own.map(({ text }) => text.split("\n").length)) : 1;
    const bottom = height - (xLabel ? layout.label : 0) - rows * layout.line - 10;
    const [[lowX, lowY], [highX, highY]] = [low, high];
    const ticksY = linearTicks(lowY, highY, Math.floor((bottom - layout.top) / layout.tick_height));
    const textsY = tickTexts(ticksY).map((text) => text + yUnit);
    const left = (yLabel ? layout.label : 0) + Math.ceil(Math.max(...textsY.map(textWidth), 16)) + 10;
    const right = width - layout.right;
    const x = scaleOf({ low: lowX, high: highX, isLog: xLog }, 0, right - left);
    const y = scaleOf({ low: lowY, high: highY }, bottom - layout.top, 0);
    this.#plot = { x, y, width: right - left, height: bottom - layout.top, low, high, left };
    const most = Math.max(layout.few_ticks, Math.floor((right - left) / layout.tick_width));
    const round = () => {
      const ticks = xLog ? logTicks(lowX, highX, most) : linearTicks(lowX, highX, most);
      const texts = xLog ? ticks.map(written.short) : tickTexts(ticks);
      return ticks.map((at, index) => ({ at, text: texts[index] + xUnit }));
    };
    const ticksX = own ?? round();
    const grid = [
      ...ticksX.map(({ at }) => `M${x(at)} 0V${bottom - layout.top}`),
      ...ticksY.map((at) => `M0 ${y(at)}H${right - left}`),
    ];
    const text = (anchor, atX, atY, content) =>
      drawing("text", { x: atX, y: atY, "text-anchor": anchor }, content);
    const { shapes = [], texts = [] } = under?.(this.#plot) ?? {};
    this.#drawn = this.lines.map((line) => ({ policy: line.policy, node: this.#line(line) }));
    this.#group = drawing("g");
    this.#cursor = drawing("circle", { class: "cursor", r: 8, visibility: "hidden" });
    this.#picture.setAttribute("width", width);
    this.#picture.setAttribute("height", height);
    this.#picture.replaceChildren(
      ...ticksY.map((at, index) => text("end", left - 8, layout.top + y(at) + 4, textsY[index])),
      ...this.#textsThatFit(ticksX).flatMap(({ at, text: lines }) =>
        lines.map((line, row) => text("middle", at, bottom + 4 + layout.line * (row + 1), line))),
      ...(xLabel ? [text("middle", (left + right) / 2, height - 5, xLabel)] : []),
      ...(yLabel ? [this.#sideways(yLabel, 12, (layout.top + bottom) / 2)] : []),
      drawing(
        "g",
        { transform: `translate(${left} ${layout.top})` },
        drawing("path", { class: "grid", d: grid.join("") }),
        // A picture in the picture, which cuts off what goes beyond the axes.
        drawing("svg", { width: right - left, height: bottom - layout.top }, ...shapes),
        drawing("path", { class: "rule", d: this.#rule(bottom - layout.top, right - left) }),
        drawing("rect", { class: "over", width: right - left, height: bottom - layout.top }),
        !this.#part.isPart ? this.#group : drawing("svg", { width: right - left, height: bottom - layout.top }, this.#group),
        ...texts.map(({ text, x, y }) => drawing("text", { class: "rimmed", x, y: y + 4 }, text)),
        this.#cursor,
      ),
    );
    this.#followZoom(this.#part.isPart);
    this.mark();
  }

  /** The two axes' lines; one that does not begin at zero has a break near its beginning. */
  #rule(height, width) {
    const { low } = this.#part;
    const isCut = [!this.#options.xLog && low[0] > 0, low[1] > 0];
    const names = [isCut[1] ? "vertical" : null, isCut[0] ? "horizontal" : null].filter((name) => name !== null);
    const starts = isCut.map((cut, at) => (cut ? shortText(+low[at].toPrecision(3)) : null)).reverse().filter((start) => start !== null);
    this.#remark.textContent = names.length === 0
      ? ""
      : names.map((name, at) => `${name} axis from ${starts[at]}`).join(", ").replace(/^./, (letter) => letter.toUpperCase());
    this.#zeroButton.hidden = names.length === 0 && !this.#fromZero || this.#part.isPart;
    this.#zeroButton.setAttribute("aria-pressed", String(this.#fromZero));
    const up = isCut[1] ? `V${height - 16}l-4-2l8-4l-4-2` : "";
    const along = isCut[0] ? "h8l2-4l4 8l2-4" : "";
    return `M0 ${height}${up}V0M0 ${height}${along}H${width}`;
  }

  #sideways(text, x, y) {
    return drawing("text", { "text-anchor": "middle", transform: `translate(${x} ${y}) rotate(-90)` }, text);
  }

  /** Ticks' texts, line by line, without those for which the ones before leave no room. */
  #textsThatFit(ticks) {
    const { x, left } = this.#plot;
    let free = 0;
    return ticks.flatMap(({ at, text }) => {
      const lines = text.split("\n");
      const half = Math.ceil(Math.max(...lines.map(textWidth)) / 2);
      const middle = Math.min(left + x(at), this.#width - half);
      if (middle - half < free) return [];
      free = middle + half + 8;
      return [{ at: middle, text: lines }];
    });
  }

  /** Whether a point is in the part that is enlarged. */
  #shows(point) {
    const [x, y] = this.#place(point);
    return !this.#part.isPart || (x >= 0 && y >= 0 && x <= this.#plot.width && y <= this.#plot.height);
  }

  #place(point) {
    return [this.#plot.x(point.x), this.#plot.y(point.y)];
  }

  #line(line) {
    const { hue, dash = null, outline, hollow } = marks.get(line.policy) ?? line;
    const places = line.points.map((point) => this.#place(point).map((at) => at.toFixed(1)).join(" "));
    const { x, height } = this.#plot;
    const parts = [drawing("path", {
      class: line.dashed ? "course target" : "course",
      d: `M${places.join("L")}`,
      "stroke-dasharray": line.dashed ? "1.5 3" : dash,
    })];
    if (line.area) {
      const [first, last] = [line.points[0], line.points.at(-1)];
      parts.unshift(drawing("path", { class: "area", d: `M${x(first.x)} ${height}L${places.join("L")}L${x(last.x)} ${height}Z` }));
    }
    if (outline !== undefined && !line.dashed) {
      // On a long line a shape here and there will do; lines start theirs at different places.
      const { marked_points: most, marks: some, stagger } = layout;
      const step = line.points.length > most ? Math.ceil(line.points.length / some) : 1;
      const first = (stagger * policies.indexOf(line.policy)) % step;
      for (let at = first; at < line.points.length; at += step) {
        const { emphasised } = this.#options;
        const radius = layout.mark * ((emphasised?.(line.points[at]) ?? true) ? 1 : 0.6);
        parts.push(drawing("path", {
          class: `${hollow ? "hollow" : "full"}${emphasised?.(line.points[at]) ? " chosen" : ""}`,
          d: outline,
          transform: `translate(${places[at]}) scale(${radius})`,
          "stroke-width": 1.5 / radius,
        }));
      }
    }
    const node = drawing("g", { class: line.points.length === 1 ? "line single" : "line" }, ...parts);
    node.style.color = line.policy === undefined ? `var(--${hue})` : colourOf(line.policy);
    return node;
  }

  #hover(event) {
    if (this.#zooming.isDragging || this.#plot === null) return;
    const box = this.#picture.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left - this.#plot.left, event.clientY - box.top - layout.top];
    let nearest = null;
    let distance = REACH * REACH;
    for (const line of this.lines) {
      for (const point of line.points) {
        if (!this.#shows(point)) continue;
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
    view.point(at.line.policy ?? null);
    const lines = this.#options.describe(at.point, at.line);
    this.#tip.replaceChildren(
      ...(at.line.policy === undefined ? [] : [named(at.line.policy)]),
      element(
        "dl",
        {},
        ...lines.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]),
      ),
    );
    this.#tip.hidden = false;
    const [x, y] = this.#place(at.point);
    for (const [name, value] of [["cx", x], ["cy", y], ["visibility", "visible"]]) this.#cursor.setAttribute(name, value);
    const [left, top] = [x + this.#plot.left, y + layout.top];
    const { offsetWidth: width, offsetHeight: height } = this.#tip;
    const aside = left + 16 + width <= this.#width ? left + 16 : left - 16 - width;
    // Where neither side has room the box goes below, so that it does not hide its point.
    const below = Math.max(0, Math.min(left - width / 2, this.#width - width));
    this.#tip.style.left = `${aside >= 0 ? aside : below}px`;
    this.#tip.style.top = `${aside >= 0 ? Math.max(0, top - height / 2) : top + 16}px`;
    return lines;
  }

  #leave() {
    if (this.#at === null) return;
    this.#at = null;
    this.#tip.hidden = true;
    this.#cursor.setAttribute("visibility", "hidden");
    view.point(null);
  }

  #choose() {
    if (this.#at !== null) this.#options.choose?.(this.#at.point);
  }

  #key(event) {
    if (event.target !== this.#holder || event.ctrlKey || event.metaKey || event.altKey || this.#plot === null) return;
    if (event.key === "Escape") return this.#at === null ? this.#showWhole() : this.#leave();
    if (event.key === "Enter") return this.#choose();
    const zooms = { "+": () => this.#zoomBy(ZOOM_STEP), "=": () => this.#zoomBy(ZOOM_STEP), "-": () => this.#zoomBy(1 / ZOOM_STEP), 0: () => this.#showWhole() };
    const moves = { ArrowLeft: [-0.2, 0], ArrowRight: [0.2, 0], ArrowUp: [0, 0.2], ArrowDown: [0, -0.2] };
    if (zooms[event.key] !== undefined || (event.shiftKey && moves[event.key] !== undefined)) {
      event.preventDefault();
      if (zooms[event.key] !== undefined) zooms[event.key]();
      else this.#zoom((part) => part.move(...moves[event.key]));
      return;
    }
    if (!["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"].includes(event.key)) return;
    event.preventDefault();
    if (this.lines.length === 0) return;
    const next = this.#at === null ? { line: this.lines[0], index: 0 } : this.#step(event.key);
    const at = { line: next.line, point: next.line.points[next.index] };
    const lines = this.#go(at);
    const policy = at.line.policy === undefined ? "" : `${at.line.policy}: `;
    announce(policy + lines.map(([name, value]) => `${name} ${value}`).join(", "));
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

  #tools() {
    const { label } = this.#options;
    const { buttons, follow } = zoomButtons({
      zoomIn: () => this.#zoomBy(ZOOM_STEP),
      zoomOut: () => this.#zoomBy(1 / ZOOM_STEP),
      reset: () => this.#showWhole(),
    });
    this.#followZoom = follow;
    this.#zeroButton = element("button", {
      type: "button",
      title: "Let the axes begin at zero",
      hidden: true,
      on: {
        click: () => {
          this.#fromZero = !this.#fromZero;
          this.update();
        },
      },
    }, "From 0");
    const saving = savingButtons({ file: () => this.#file(), csv: () => this.#csv(), name: () => label });
    return element(
      "div",
      { class: "figure-tools", role: "group", "aria-label": `Tools of the chart ${label}` },
      ...buttons,
      this.#zeroButton,
      element("span", { class: "save" }, "Save as"),
      ...saving,
    );
  }

  /** The chart with its title and the names of its lines in colour. */
  #file() {
    this.#leave();
    const drawn = [...new Set(this.lines.map((line) => line.policy).filter((policy) => policy !== undefined))];
    const isNamed = (policy) => view.colours.has(policy) || policy === view.marked;
    const entries = drawn.filter(isNamed).map((policy) => ({
      swatch: document.querySelector(`#legend [data-policy="${policies.indexOf(policy)}"] .swatch`),
      name: policy,
    }));
    return figureFile(this.#picture, { title: this.#options.label, entries });
  }

  /** The numbers of all lines, as they are and not as they are written. */
  #csv() {
    const { xLabel, yLabel, label, note, csv = [] } = this.#options;
    const hasSeries = this.lines.some((line) => line.policy !== undefined);
    const x = csv.some(([name]) => name === "frames") ? [] : [[xLabel ?? note ?? "x", (point) => point.x]];
    const columns = [...x, ...csv, [yLabel ?? label, (point) => point.y]];
    const head = [...(hasSeries ? ["policy"] : []), ...columns.map(([name]) => name)];
    const rows = this.lines.flatMap((line) =>
      line.points.map((point) => [
        ...(hasSeries ? [line.dashed ? `${line.policy}, target` : line.policy] : []),
        ...columns.map(([, value]) => value(point)),
      ]),
    );
    return csvOfRows([head, ...rows]);
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
    const head = columns.map(([name]) => name);
    const hasPolicies = this.lines.some((line) => line.policy !== undefined);
    const rows = this.lines.flatMap((line) =>
      line.points.map((point) => {
        const texts = columns.map(([, text]) => text(point));
        const first = hasPolicies ? (line.dashed ? `${line.policy}, target` : line.policy) : texts.shift();
        return element(
          "tr",
          {},
          element("th", { scope: "row" }, first),
          ...texts.map((text) => element("td", {}, text)),
        );
      }),
    );
    if (hasPolicies) head.unshift("policy");
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
