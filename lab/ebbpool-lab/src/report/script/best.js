// The map: which policy has the least bill at which memory size and which asymmetry.

// With more sizes its fields would be too narrow for their names.
const MOST_MAPPED = 8;
// Sizes up to which the map fits beside the list of policies.
const MOST_BESIDE = 5;

function bestSection(choice) {
  const { trace } = choice;
  const cells = [];
  // One row needs no name that is seen.
  const head = (asymmetry) =>
    element("span", { class: trace.device === null ? null : "unseen" }, ...breakable(trace.place(asymmetry)));
  const rows = trace.asymmetriesInOrder.map((asymmetry) => {
    const row = trace.sizesInOrder.map((size) => {
      const button = element("button", {
        type: "button",
        class: "best",
        on: {
          click: () => choice.choose(size, asymmetry),
          pointerenter: () => view.point(trace.best(size, asymmetry)?.policy ?? null),
          pointerleave: () => view.point(null),
        },
      });
      cells.push({ button, size, asymmetry });
      return element("td", {}, button);
    });
    return element("tr", {}, element("th", { scope: "row" }, head(asymmetry)), ...row);
  });
  choice.on(() => {
    for (const { button, size, asymmetry } of cells) {
      const best = trace.best(size, asymmetry);
      const chosen = size === choice.size && asymmetry === choice.asymmetry;
      button.setAttribute("aria-pressed", String(chosen));
      if (best === undefined) {
        button.replaceChildren(element("span", {}, NONE));
        button.style.background = "";
        button.classList.add("empty");
        continue;
      }
      const saving = trace.saving(best);
      const note = saving === null ? figures.bill(best) : `${saving.toFixed(1)} %`;
      button.classList.remove("empty");
      button.replaceChildren(element("b", {}, ...breakable(best.policy)), element("span", {}, note));
      button.style.background = `var(--${view.colours.get(best.policy) ?? "grey"})`;
    }
  });
  const sizes = trace.sizesInOrder.map((size) => {
    const { text, frames, bytes } = trace.sizes[size];
    const share = text.endsWith("%") ? element("b", {}, written.size(trace.sizes[size])) : null;
    const amount = bytes === null ? null : element("span", {}, written.bytes(bytes));
    return element("th", { scope: "col" }, share, amount, element("span", {}, written.count(frames)));
  });
  const rivals = trace.offline.length === 0 ? "The policy" : "The policy that does not know the future";
  const caption = trace.hasBaseline
    ? `${rivals} with the least ${trace.bill_unit.name}, and what it saves against ${report.baseline}`
    : `${rivals} with the least ${trace.bill_unit.name}, and what that is`;
  const corner = element("td", {}, element("span", {}, "frames"));
  const map = element("table", { class: "map" });
  // Each field has room for a name.
  map.style.minWidth = `${4.2 + 4.9 * sizes.length}rem`;
  map.append(
    element("caption", { class: "unseen" }, caption),
    element("thead", {}, element("tr", {}, corner, ...sizes)),
    element("tbody", {}, ...rows),
  );
  return element(
    "div",
    {},
    element("p", { class: "above" }, `${caption}. Choose a field to see more of it.`),
    element("div", { class: "scroll plain", tabindex: 0, role: "region", "aria-label": caption }, map),
  );
}
