// The colour, dash and shape of each policy, which come with the results.

const policies = [...new Set(report.traces.flatMap((trace) => trace.policies))];
const marks = new Map(
  report.traces.flatMap((trace) => trace.policies.map((policy, at) => [policy, report.marks[trace.marks[at]]])),
);

/** The colour of a policy, or grey: see View.paint(). */
function colourOf(policy) {
  return `var(--policy-${policies.indexOf(policy)})`;
}

/** A line and a shape, as in the charts. */
function swatch(policy, withLine = true) {
  const { dash, outline, hollow } = marks.get(policy);
  const stroke = colourOf(policy);
  const width = withLine ? 36 : 14;
  const line = drawing("line", { x1: 1, x2: width - 1, y1: 7, y2: 7, "stroke-width": 2, "stroke-dasharray": dash });
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
