// Zooming by pointer: a rectangle dragged with the mouse, the wheel with Ctrl, a pinch on a touchpad. A finger scrolls the
// page, as everywhere; there are buttons.

const SHORTEST_DRAG = 6;
// A drag that is flatter than this changes one axis only.
const FLAT_DRAG = 14;
const WHEEL_STEP = 1.25;

/**
 * Calls `zoomTo([left, top, right, bottom])` for a dragged rectangle, `zoomBy(factor, x, y)` for the wheel, and `reset()` for a
 * double click. `area()` is the part of the picture that can be zoomed, [left, top, right, bottom]; all positions are in
 * pixels from the picture's corner.
 */
class Zooming {
  #svg;
  #options;
  #start = null;
  #frame = drawing("rect", { class: "zoom-frame", "data-only-in-page": "", visibility: "hidden" });
  #dragged = false;

  constructor(svg, options) {
    this.#svg = svg;
    this.#options = options;
    svg.addEventListener("pointerdown", (event) => this.#down(event));
    svg.addEventListener("pointermove", (event) => this.#move(event));
    svg.addEventListener("pointerup", (event) => this.#up(event));
    svg.addEventListener("pointercancel", () => this.#end());
    svg.addEventListener("dblclick", () => options.reset());
    svg.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    // The end of a drag is not a click.
    svg.addEventListener("click", (event) => {
      if (this.#dragged) event.stopImmediatePropagation();
      this.#dragged = false;
    }, { capture: true });
  }

  get isDragging() {
    return this.#start !== null && this.#dragged;
  }

  /** A position in the picture, moved into what can be zoomed. */
  #at(event, inside = true) {
    const box = this.#svg.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    if (!inside) return [x, y];
    const [left, top, right, bottom] = this.#options.area();
    return [Math.min(Math.max(x, left), right), Math.min(Math.max(y, top), bottom)];
  }

  #isInside(event) {
    const [[x, y], [insideX, insideY]] = [this.#at(event, false), this.#at(event)];
    return x === insideX && y === insideY;
  }

  #down(event) {
    this.#dragged = false;
    if (event.button !== 0 || event.pointerType === "touch" || !this.#isInside(event)) return;
    this.#start = this.#at(event);
  }

  #rectangle(event) {
    const [[x0, y0], [x1, y1]] = [this.#start, this.#at(event)];
    const [left, top, right, bottom] = this.#options.area();
    const wide = Math.abs(x1 - x0) >= FLAT_DRAG;
    const tall = Math.abs(y1 - y0) >= FLAT_DRAG;
    return [
      wide || !tall ? Math.min(x0, x1) : left,
      tall || !wide ? Math.min(y0, y1) : top,
      wide || !tall ? Math.max(x0, x1) : right,
      tall || !wide ? Math.max(y0, y1) : bottom,
    ];
  }

  #move(event) {
    if (this.#start === null) return;
    const [x, y] = this.#at(event);
    if (!this.#dragged) {
      if (Math.hypot(x - this.#start[0], y - this.#start[1]) < SHORTEST_DRAG) return;
      this.#dragged = true;
      this.#svg.setPointerCapture(event.pointerId);
      this.#svg.append(this.#frame);
      this.#frame.setAttribute("visibility", "visible");
    }
    event.preventDefault();
    this.#options.dragging?.();
    const corners = this.#rectangle(event).map((at, index) => this.#inUnits(at, index));
    const [left, top, right, bottom] = corners;
    for (const [name, value] of [["x", left], ["y", top], ["width", right - left], ["height", bottom - top]]) {
      this.#frame.setAttribute(name, value);
    }
  }

  /** A position in pixels in the picture's own units. */
  #inUnits(at, index) {
    const { width, height } = this.#svg.getBoundingClientRect();
    const { baseVal: view } = this.#svg.viewBox;
    if (!this.#svg.hasAttribute("viewBox")) return at;
    return index % 2 === 0 ? view.x + (at * view.width) / width : view.y + (at * view.height) / height;
  }

  #up(event) {
    const wasDragged = this.isDragging;
    const rectangle = wasDragged ? this.#rectangle(event) : null;
    this.#end();
    const isLarge = rectangle !== null && rectangle[2] - rectangle[0] >= FLAT_DRAG / 2 && rectangle[3] - rectangle[1] >= FLAT_DRAG / 2;
    if (isLarge) this.#options.zoomTo(rectangle);
  }

  #end() {
    this.#start = null;
    this.#frame.setAttribute("visibility", "hidden");
    this.#frame.remove();
  }

  #wheel(event) {
    if (!(event.ctrlKey || event.metaKey) || !this.#isInside(event)) return;
    event.preventDefault();
    this.#options.zoomBy(event.deltaY < 0 ? WHEEL_STEP : 1 / WHEEL_STEP, ...this.#at(event));
  }
}

/** Buttons that zoom: {buttons, follow}; `follow(isZoomed)` says which of them do something. */
function zoomButtons({ zoomIn, zoomOut, reset }) {
  const button = (text, title, click) => element("button", { type: "button", title, "aria-label": title, on: { click } }, text);
  const [closer, farther, whole] = [
    button("+", "Zoom in", zoomIn),
    button("−", "Zoom out", zoomOut),
    button("Reset", "Show the whole figure", reset),
  ];
  const follow = (isZoomed) => {
    farther.disabled = !isZoomed;
    whole.hidden = !isZoomed;
  };
  follow(false);
  return { buttons: [closer, farther, whole], follow };
}
