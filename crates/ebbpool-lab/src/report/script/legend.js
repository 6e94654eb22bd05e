// The list of policies: a click hides, a double click or M marks for good, pointing marks meanwhile.

function legend(holder) {
  const entries = policies.map((policy) => {
    const entry = element(
      "button",
      {
        type: "button",
        class: "entry",
        on: {
          click: () => view.toggle(policy),
          dblclick: () => view.pin(policy),
          keydown: (event) => {
            if (event.key === "m" || event.key === "M") view.pin(policy);
          },
          pointerenter: () => view.point(policy),
          pointerleave: () => view.point(null),
          focus: () => view.point(policy),
          blur: () => view.point(null),
        },
      },
      swatch(policy),
      element("span", { class: "name" }, ...breakable(policy)),
    );
    const follow = () => {
      entry.setAttribute("aria-pressed", String(view.shows(policy)));
      entry.classList.toggle("pinned", view.pinned === policy);
      entry.classList.toggle("marked", view.marked === policy);
    };
    view.on("policies mark", follow);
    follow();
    return element("li", {}, entry);
  });
  const all = element("button", { type: "button", on: { click: () => view.showAll() } }, "Show all");
  const follow = () => (all.disabled = view.hidden.size === 0);
  view.on("policies", follow);
  follow();
  holder.append(
    element("div", { class: "legend-head" }, element("h2", {}, "Policies"), all),
    element("ul", {}, ...entries),
    element("p", { class: "hint" }, "Click to hide. Double click, or press M, to mark."),
  );
}
