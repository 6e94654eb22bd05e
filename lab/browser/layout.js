// What is wrong with the layout of the page at hand, as a list of sentences: texts over each other, texts outside of
// their boxes, words broken between their letters, faint texts, and a page that scrolls sideways.

const SLACK = 1.5; // Line boxes are taller than their letters.
const LONGEST_UNBROKEN = 20; // Longer words have to break somewhere.
const LEAST_CONTRAST = 3;

const root = document.body ?? document.documentElement;
const isSvg = (node) => node.namespaceURI === "http://www.w3.org/2000/svg";
const problems = new Set();
const shortened = (text) => {
  const line = text.trim().replace(/\s+/g, " ");
  return line.length > 60 ? `${line.slice(0, 57)}...` : line;
};

// The box that an element's ancestors leave of what it shows: those that scroll or hide cut off the rest.
const clips = new Map();
function clipOf(node) {
  if (node === null || node === document.documentElement || node === document.body) {
    return [-Infinity, -Infinity, Infinity, Infinity];
  }
  if (!clips.has(node)) {
    let [left, top, right, bottom] = clipOf(node.parentElement);
    if (!isSvg(node) && getComputedStyle(node).overflow !== "visible") {
      const box = node.getBoundingClientRect();
      [left, top] = [Math.max(left, box.left), Math.max(top, box.top)];
      [right, bottom] = [Math.min(right, box.right), Math.min(bottom, box.bottom)];
    }
    clips.set(node, [left, top, right, bottom]);
  }
  return clips.get(node);
}

const boundsOf = (corners) => [
  Math.min(...corners.map(([x]) => x)),
  Math.min(...corners.map(([, y]) => y)),
  Math.max(...corners.map(([x]) => x)),
  Math.max(...corners.map(([, y]) => y)),
];

/** The four corners of a text of a figure, which may be turned. */
function cornersOf(text) {
  const { x, y, width, height } = text.getBBox();
  const matrix = text.getScreenCTM();
  if (matrix === null || width === 0) return null;
  const [dx, dy] = [Math.min(SLACK, width / 4), Math.min(SLACK, height / 4)];
  return [[x + dx, y + dy], [x + width - dx, y + dy], [x + width - dx, y + height - dy], [x + dx, y + height - dy]].map(
    ([atX, atY]) => [matrix.a * atX + matrix.c * atY + matrix.e, matrix.b * atX + matrix.d * atY + matrix.f],
  );
}

/** Whether two convex shapes share a point: no side of either separates them. */
function meet(one, other) {
  const separates = (shape) =>
    shape.some(([x, y], at) => {
      const [nextX, nextY] = shape[(at + 1) % shape.length];
      const along = ([px, py]) => (px - x) * (nextY - y) - (py - y) * (nextX - x);
      const [a, b] = [one.map(along), other.map(along)];
      return Math.max(...a) <= Math.min(...b) || Math.max(...b) <= Math.min(...a);
    });
  return !separates(one) && !separates(other);
}

const blocks = new Map();
function blockOf(node) {
  if (!blocks.has(node)) {
    const inline = ["inline", "contents"].includes(getComputedStyle(node).display) && node.parentElement !== null;
    blocks.set(node, inline ? blockOf(node.parentElement) : node);
  }
  return blocks.get(node);
}

const found = [];

function textOfFigure(text) {
  const corners = cornersOf(text);
  if (corners === null) return;
  const content = shortened(text.textContent);
  const [left, top, right, bottom] = boundsOf(corners);
  for (let frame = text.parentElement.closest("svg"); frame !== null; frame = frame.parentElement?.closest("svg") ?? null) {
    if (!isSvg(frame) || getComputedStyle(frame).overflow === "visible") continue;
    const box = frame.getBoundingClientRect();
    if (left < box.left - 0.5 || top < box.top - 0.5 || right > box.right + 0.5 || bottom > box.bottom + 0.5) {
      problems.add(`"${content}" goes beyond the edge of its figure`);
    }
  }
  found.push({ content, corners, bounds: [left, top, right, bottom] });
}

function brokenWords(node, content) {
  const range = document.createRange();
  for (const { index, 0: word } of node.data.matchAll(/[^\s\-–/,:;=_.()[\]\u200b\u00ad]+/g)) {
    if (word.length < 2 || word.length > LONGEST_UNBROKEN) continue;
    range.setStart(node, index);
    range.setEnd(node, index + word.length);
    const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
    if (lines.size > 1) problems.add(`"${word}" is broken between its letters in "${content}"`);
  }
}

function outsideOf(block, box, content) {
  if (block === root) return;
  const frame = block.getBoundingClientRect();
  if (box.left < frame.left - 1 || box.right > frame.right + 1) {
    problems.add(`"${content}" is wider than its ${block.localName}`);
  }
  if (box.top < frame.top - 3 || box.bottom > frame.bottom + 3) {
    problems.add(`"${content}" is taller than its ${block.localName}`);
  }
}

function textOfPage(node) {
  const parent = node.parentElement;
  const content = shortened(node.data);
  const range = document.createRange();
  range.selectNodeContents(node);
  const boxes = [...range.getClientRects()].filter((box) => box.width > 0 && box.height > 0);
  const clip = clipOf(parent);
  const block = blockOf(parent);
  const cell = parent.closest("td, th");
  for (const box of boxes) {
    outsideOf(block, box, content);
    if (cell !== null && cell !== block) outsideOf(cell, box, content);
    const left = Math.max(box.left, clip[0]) + SLACK;
    const top = Math.max(box.top, clip[1]) + SLACK;
    const right = Math.min(box.right, clip[2]) - SLACK;
    const bottom = Math.min(box.bottom, clip[3]) - SLACK;
    if (left >= right || top >= bottom) continue;
    const corners = [[left, top], [right, top], [right, bottom], [left, bottom]];
    found.push({ content, corners, bounds: [left, top, right, bottom] });
  }
  if (boxes.length > 1) brokenWords(node, content);
  faint(parent, content);
}

const channels = (colour) => colour.match(/[\d.]+/g)?.map(Number) ?? [];
const isOpaque = (colour) => {
  const [, , , alpha = 1] = channels(colour);
  return alpha === 1;
};
function luminance(colour) {
  const [r, g, b] = channels(colour).map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

const looks = new Map();
function faint(node, content) {
  if (node.closest(":disabled, [aria-disabled=true]")) return;
  if (!looks.has(node)) {
    const { color } = getComputedStyle(node);
    let behind = node;
    while (behind !== null && !isOpaque(getComputedStyle(behind).backgroundColor)) behind = behind.parentElement;
    const paper = behind === null ? "rgb(255, 255, 255)" : getComputedStyle(behind).backgroundColor;
    const comparable = color.startsWith("rgb") && paper.startsWith("rgb");
    const [a, b] = comparable ? [luminance(color), luminance(paper)] : [1, 0];
    looks.set(node, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05));
  }
  if (looks.get(node) < LEAST_CONTRAST) {
    problems.add(`"${content}" hardly differs from its background (${looks.get(node).toFixed(1)}:1)`);
  }
}

const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
const figureTexts = new Set();
for (let node = walker.nextNode(); node; node = walker.nextNode()) {
  const parent = node.parentElement;
  if (!node.data.trim() || parent.closest("option, script, style, noscript, textarea, title, desc, .unseen, .skip")) continue;
  if (!parent.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
  if (isSvg(parent)) {
    const text = parent.closest("text");
    if (text !== null && !figureTexts.has(text)) {
      figureTexts.add(text);
      textOfFigure(text);
    }
  } else {
    textOfPage(node);
  }
}

found.sort((a, b) => a.bounds[1] - b.bounds[1]);
found.forEach((one, at) => {
  for (let next = at + 1; next < found.length && found[next].bounds[1] < one.bounds[3]; next += 1) {
    const other = found[next];
    const apart = one.bounds[0] >= other.bounds[2] || other.bounds[0] >= one.bounds[2];
    if (!apart && meet(one.corners, other.corners)) problems.add(`"${one.content}" and "${other.content}" overlap`);
  }
});

const { scrollWidth, clientWidth } = document.scrollingElement ?? document.documentElement;
if (scrollWidth > clientWidth) {
  problems.add(`the page scrolls sideways: it takes ${scrollWidth} of ${clientWidth} pixels`);
}

return [...problems];
