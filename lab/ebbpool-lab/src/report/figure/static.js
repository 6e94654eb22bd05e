// Gives every picture of class `figure` in the page its tools: zoom, a series alone, and files.

const MOST_ZOOM = 40;

/** The data beside a picture: of a script of type text/csv that follows it, is beside it, or has the id in `data-csv`. */
function csvBeside(svg) {
  const named = svg.dataset.csv ? document.getElementById(svg.dataset.csv) : null;
  const beside = named ?? svg.closest("figure")?.querySelector('script[type="text/csv"]') ?? svg.nextElementSibling;
  return beside?.matches('script[type="text/csv"]') ? beside.textContent.trim() + "\n" : null;
}

/** Zooms by the picture's own view; returns the buttons. */
function zoomByView(svg) {
  const whole = svg.viewBox.baseVal;
  const all = [whole.x, whole.y, whole.width, whole.height];
  let view = all;
  const show = ([x, y, width, height]) => {
    const share = Math.min(1, Math.max(width / all[2], 1 / MOST_ZOOM));
    const [newWidth, newHeight] = [share * all[2], share * all[3]];
    const clamp = (at, low, high) => Math.min(Math.max(at, low), high);
    view = [
      clamp(x + (width - newWidth) / 2, all[0], all[0] + all[2] - newWidth),
      clamp(y + (height - newHeight) / 2, all[1], all[1] + all[3] - newHeight),
      newWidth,
      newHeight,
    ];
    svg.setAttribute("viewBox", view.join(" "));
    svg.classList.toggle("zoomed", share < 1);
    controls.follow(share < 1);
  };
  const reset = () => show(all);
  // Keeps the point at these shares of the view where it is.
  const zoomBy = (factor, alongX = 0.5, alongY = 0.5) => {
    const [x, y, width, height] = view;
    show([x + alongX * width * (1 - 1 / factor), y + alongY * height * (1 - 1 / factor), width / factor, height / factor]);
  };
  const controls = zoomButtons({ zoomIn: () => zoomBy(1.5), zoomOut: () => zoomBy(1 / 1.5), reset });
  const size = () => svg.getBoundingClientRect();
  new Zooming(svg, {
    area: () => [0, 0, size().width, size().height],
    zoomTo: ([left, top, right, bottom]) => {
      const { width, height } = size();
      // The picture keeps its proportions: all of the rectangle is in sight.
      const share = Math.max((right - left) / width, (bottom - top) / height);
      const middle = [(left + right) / 2 / width, (top + bottom) / 2 / height];
      const [x, y, viewWidth, viewHeight] = view;
      show([
        x + (middle[0] - share / 2) * viewWidth,
        y + (middle[1] - share / 2) * viewHeight,
        share * viewWidth,
        share * viewHeight,
      ]);
    },
    zoomBy: (factor, x, y) => zoomBy(factor, x / size().width, y / size().height),
    reset,
  });
  const step = 0.15;
  svg.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
    if (event.target !== svg || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "+" || event.key === "=") zoomBy(1.5);
    else if (event.key === "-") zoomBy(1 / 1.5);
    else if (event.key === "0" || event.key === "Escape") reset();
    else if (moves[event.key] && view[2] < all[2]) {
      const [alongX, alongY] = moves[event.key];
      show([view[0] + alongX * view[2], view[1] + alongY * view[3], view[2], view[3]]);
    } else return;
    event.preventDefault();
  });
  return controls.buttons;
}

/** A click on an entry of the legend, or on a series, leaves that series alone; another one brings the rest back. */
function isolateOnClick(figure) {
  const marked = [...figure.querySelectorAll("[data-series]")];
  let alone = null;
  const follow = () => {
    for (const node of marked) {
      node.classList.toggle("pale", alone !== null && node.dataset.series !== alone);
      if (node.hasAttribute("role")) node.setAttribute("aria-pressed", String(node.dataset.series === alone));
    }
  };
  const choose = (name) => {
    alone = alone === name ? null : name;
    follow();
  };
  for (const node of marked) {
    node.addEventListener("click", () => choose(node.dataset.series));
    // What has a text is an entry of the legend.
    if (node instanceof SVGElement && node.querySelector("text") === null) continue;
    node.setAttribute("role", "button");
    node.setAttribute("tabindex", "0");
    node.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      choose(node.dataset.series);
    });
  }
  follow();
}

function giveTools(svg) {
  const figure = svg.closest("figure") ?? svg.parentElement;
  const title = () =>
    figure.querySelector("figcaption")?.textContent.trim() || svg.querySelector("title")?.textContent.trim() || svg.id || "figure";
  const csv = csvBeside(svg);
  const zoom = svg.hasAttribute("viewBox") ? zoomByView(svg) : [];
  svg.setAttribute("tabindex", "0");
  isolateOnClick(figure);
  const saving = savingButtons({ file: () => figureFile(svg), csv: csv === null ? null : () => csv, name: title });
  svg.after(element(
    "div",
    { class: "figure-tools", role: "group", "aria-label": "Tools of the figure" },
    ...zoom,
    element("span", { class: "save" }, "Save as"),
    ...saving,
  ));
}

for (const svg of document.querySelectorAll("svg.figure")) giveTools(svg);
