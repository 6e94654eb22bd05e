// Saves a figure as SVG or PNG, and data as CSV: whatever the page's styles say goes into the file.

const STYLES_OF_DRAWINGS = [
  "fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "stroke-linecap",
  "stroke-opacity", "opacity", "paint-order", "text-anchor", "dominant-baseline", "font-family", "font-size",
  "font-weight", "font-style", "visibility", "display", "color",
];
// Pixels of a PNG for each pixel of the figure, so that it is sharp in print.
const PNG_SCALE = 2;
const TITLE_HEIGHT = 26;
const ENTRY_HEIGHT = 20;
const SIDE = 12;

function saveFile(content, type, name) {
  const link = element("a", { href: URL.createObjectURL(new Blob([content], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** A name for a file, from words. */
function fileName(words, ending) {
  const plain = words.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
  return `${plain.slice(0, 80) || "figure"}.${ending}`;
}

function csvField(value) {
  const text = value === null || value === undefined ? "" : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Rows of values as CSV. */
function csvOfRows(rows) {
  return rows.map((row) => `${row.map(csvField).join(",")}\n`).join("");
}

/** The colour behind an element. */
function paperOf(node) {
  for (let at = node; at !== null; at = at.parentElement) {
    const { backgroundColor } = getComputedStyle(at);
    if (!/^rgba\(.*, 0\)$/.test(backgroundColor)) return backgroundColor;
  }
  return "white";
}

/** A copy of a drawing with the styles that the page gives it, and without what only works in the page. */
function styledCopy(svg) {
  const copy = svg.cloneNode(true);
  const originals = [svg, ...svg.querySelectorAll("*")];
  const copies = [copy, ...copy.querySelectorAll("*")];
  originals.forEach((original, at) => {
    const style = getComputedStyle(original);
    for (const name of ["style", "class", "tabindex", "role", "aria-hidden", "aria-pressed"]) copies[at].removeAttribute(name);
    for (const name of STYLES_OF_DRAWINGS) {
      const value = style.getPropertyValue(name);
      if (value !== "") copies[at].setAttribute(name, value);
    }
  });
  for (const node of copy.querySelectorAll("style, script, [data-only-in-page]")) node.remove();
  return copy;
}

/**
 * A figure as a file of its own: {text, width, height}. Its `title` goes above, and the `entries` of a legend that
 * stands elsewhere on the page ({swatch, name}) below.
 */
function figureFile(svg, { title = null, entries = [] } = {}) {
  const { width, height: ownHeight } = svg.getBoundingClientRect();
  const [paper, { color }] = [paperOf(svg), getComputedStyle(svg.parentElement)];
  const font = { "font-family": "system-ui, sans-serif", "font-size": "12px", fill: color };
  const top = title === null ? 0 : TITLE_HEIGHT;
  const picture = styledCopy(svg);
  for (const [name, value] of [["x", 0], ["y", top], ["width", width], ["height", ownHeight]]) picture.setAttribute(name, value);
  const names = [];
  let [x, y] = [SIDE, top + ownHeight + ENTRY_HEIGHT];
  for (const { swatch, name } of entries) {
    const mark = styledCopy(swatch);
    const [markWidth, markHeight] = [Number(swatch.getAttribute("width")), Number(swatch.getAttribute("height"))];
    // As wide as its letters at most: no text of this size is wider.
    const entryWidth = markWidth + 6 + 7.2 * name.length + 18;
    if (x > SIDE && x + entryWidth > width) [x, y] = [SIDE, y + ENTRY_HEIGHT];
    mark.setAttribute("x", x);
    mark.setAttribute("y", y - markHeight + 2);
    names.push(mark, drawing("text", { ...font, x: x + markWidth + 6, y }, name));
    x += entryWidth;
  }
  const height = entries.length === 0 ? top + ownHeight : y + 10;
  const file = drawing(
    "svg",
    { xmlns: SVG, width, height, viewBox: `0 0 ${width} ${height}` },
    drawing("rect", { width, height, fill: paper }),
    title === null ? null : drawing("text", { ...font, "font-weight": 650, x: SIDE, y: 17 }, title),
    picture,
    ...names,
  );
  return { text: new XMLSerializer().serializeToString(file), width, height };
}

/** A figure's file as PNG. */
async function pngOf({ text, width, height }) {
  const address = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = element("canvas", { width: Math.ceil(PNG_SCALE * width), height: Math.ceil(PNG_SCALE * height) });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((done) => canvas.toBlob(done, "image/png"));
  } finally {
    URL.revokeObjectURL(address);
  }
}

/** Buttons that save a figure: `file()` is its SVG as figureFile() makes it, `csv()` its data or null, `name()` its name. */
function savingButtons({ file, csv, name }) {
  const button = (text, title, click) => element("button", { type: "button", title, on: { click } }, text);
  return [
    button("SVG", "Save the figure as SVG", () => saveFile(file().text, "image/svg+xml", fileName(name(), "svg"))),
    button("PNG", "Save the figure as PNG", async () => saveFile(await pngOf(file()), "image/png", fileName(name(), "png"))),
    csv === null ? null : button("CSV", "Save the numbers of the figure as CSV", () => saveFile(csv(), "text/csv", fileName(name(), "csv"))),
  ];
}
