// One colour, dash and shape per policy, the same in every report; lines differ without colour too.

const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3]];

// Outlines in a square from -1 to 1.
const SHAPES = {
  circle: "M1 0A1 1 0 1 1-1 0A1 1 0 1 1 1 0Z",
  square: "M-.88-.88H.88V.88H-.88Z",
  triangle: "M0-1.1L1.1 .85H-1.1Z",
  diamond: "M0-1.3L1.15 0 0 1.3-1.15 0Z",
  wedge: "M0 1.1L1.1-.85H-1.1Z",
  plus: "M-.4-1.15H.4V-.4H1.15V.4H.4V1.15H-.4V.4H-1.15V-.4H-.4Z",
  cross: "M0-.55L.6-1.15 1.15-.6 .55 0 1.15 .6 .6 1.15 0 .55-.6 1.15-1.15 .6-.55 0-1.15-.6-.6-1.15Z",
  bar: "M-1.2-.45H1.2V.45H-1.2Z",
};
const SHAPE_NAMES = Object.keys(SHAPES);
const HUES = ["ink", "grey", "blue", "amber", "red", "pink", "green", "purple", "cyan"];

// Hue, dash and shape; policies of a family share a hue, an upper-case shape is hollow.
const KNOWN = {
  lru: ["ink", 0, "circle"],
  fifo: ["grey", 2, "SQUARE"],
  clock: ["grey", 1, "TRIANGLE"],
  gclock: ["grey", 3, "DIAMOND"],
  belady: ["ink", 3, "bar"],
  cflru: ["blue", 0, "circle"],
  "cflru-c": ["blue", 1, "CIRCLE"],
  "cflru-e": ["blue", 2, "square"],
  "dl-cflru-e": ["blue", 3, "SQUARE"],
  "lru-wsr": ["amber", 0, "triangle"],
  "lirs-wsr": ["amber", 2, "TRIANGLE"],
  ref: ["amber", 1, "PLUS"],
  "ccf-lru": ["red", 0, "diamond"],
  "ad-lru": ["pink", 0, "wedge"],
  casa: ["amber", 0, "bar"],
  acr: ["amber", 1, "BAR"],
  ebb: ["green", 0, "circle"],
  auto: ["green", 1, "CIRCLE"],
  cfdc: ["purple", 0, "cross"],
  "fd-buffer": ["cyan", 0, "square"],
  "fd-static": ["cyan", 1, "SQUARE"],
  fab: ["pink", 1, "WEDGE"],
  bplru: ["pink", 2, "plus"],
  dulo: ["red", 1, "DIAMOND"],
};

// FNV-1a: the same number for the same text on every machine.
function hashOf(text) {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) hash = Math.imul(hash ^ byte, 0x01000193);
  return hash >>> 0;
}

function marksOf(policies) {
  const marks = new Map();
  const taken = new Set();
  for (const policy of policies) {
    const name = policy.split(":", 1)[0];
    const hash = hashOf(name);
    const chosen = Object.hasOwn(KNOWN, name)
      ? KNOWN[name]
      : [HUES[2 + (hash % 7)], (hash >>> 4) % 4, SHAPE_NAMES[(hash >>> 8) % 8]];
    const hue = chosen[0];
    let dash = chosen[1];
    let shape = SHAPE_NAMES.indexOf(chosen[2].toLowerCase());
    let hollow = chosen[2] !== chosen[2].toLowerCase();
    if (policy !== name) {
      const variant = hashOf(policy);
      dash = (dash + 1 + (variant % 3)) % 4;
      shape = (shape + (variant >>> 4)) % 8;
    }
    // Parameters may lead two variants to one mark; the later one takes the next that is free.
    for (let tries = 0; tries < 64 && taken.has(`${hue} ${dash} ${shape} ${hollow}`); tries += 1) {
      shape = (shape + 1) % 8;
      if (shape === 0) hollow = !hollow;
      if (shape === 0 && hollow) dash = (dash + 1) % 4;
    }
    taken.add(`${hue} ${dash} ${shape} ${hollow}`);
    const outline = SHAPES[SHAPE_NAMES[shape]];
    marks.set(policy, { hue, dash: DASHES[dash], outline, hollow });
  }
  return marks;
}

const policies = [...new Set(report.traces.flatMap((trace) => trace.policies))];
const marks = marksOf(policies);

/** A line and a shape, as in the charts. */
function swatch(policy, withLine = true) {
  const { hue, dash, outline, hollow } = marks.get(policy);
  const stroke = `var(--${hue})`;
  const width = withLine ? 36 : 14;
  const line = drawing("line", { x1: 1, x2: width - 1, y1: 7, y2: 7, "stroke-width": 2 });
  line.setAttribute("stroke-dasharray", dash.join(" "));
  line.style.stroke = stroke;
  const shape = drawing("path", {
    d: outline,
    transform: `translate(${width / 2} 7) scale(4.2)`,
    "stroke-width": 0.4,
  });
  shape.style.stroke = stroke;
  shape.style.fill = hollow ? "var(--paper)" : stroke;
  return drawing(
    "svg",
    { class: "swatch", width, height: 14, viewBox: `0 0 ${width} 14`, "aria-hidden": "true" },
    withLine ? line : null,
    shape,
  );
}

/** A policy's mark and name. */
function named(policy) {
  return element("span", { class: "named" }, swatch(policy, false), element("span", {}, ...breakable(policy)));
}
