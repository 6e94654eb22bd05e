// The list of policies: a click on a name leaves that policy alone, one on its mark draws it in colour or grey, and one on
// the cross hides it. Pointing marks meanwhile.

function legendEntry(policy) {
  const quietly = (name, title, click, ...children) =>
    // By keyboard the name has keys of its own for these.
    element("button", { type: "button", class: name, title, tabindex: -1, on: { click } }, ...children);
  const colour = quietly("colour", "In colour or grey", () => view.toggleColour(policy));
  const hide = quietly("hide", "Hide or show", () => view.toggle(policy));
  const entry = element(
    "button",
    {
      type: "button",
      class: "entry",
      title: "Alone, or with the others again",
      "aria-keyshortcuts": "C H",
      on: {
        click: () => view.pin(policy),
        keydown: (event) => {
          const key = event.key.toLowerCase();
          if (event.ctrlKey || event.metaKey || event.altKey) return;
          if (key === "c") view.toggleColour(policy);
          if (key === "h") view.toggle(policy);
        },
        focus: () => view.point(policy),
        blur: () => view.point(null),
      },
    },
    element("span", { class: "name" }, ...breakable(policy)),
  );
  const item = element(
    "li",
    { "data-policy": policies.indexOf(policy), on: { pointerenter: () => view.point(policy), pointerleave: () => view.point(null) } },
    colour,
    entry,
    hide,
  );
  const follow = () => {
    const shows = view.shows(policy);
    colour.replaceChildren(swatch(policy));
    colour.setAttribute("aria-pressed", String(view.colours.has(policy)));
    colour.setAttribute("aria-label", `${policy}: in colour or grey`);
    hide.textContent = shows ? "×" : "+";
    hide.setAttribute("aria-label", `${policy}: ${shows ? "hide" : "show"}`);
    entry.setAttribute("aria-pressed", String(view.pinned === policy));
    item.classList.toggle("off", !shows);
    item.classList.toggle("pinned", view.pinned === policy);
    item.classList.toggle("marked", view.marked === policy);
    item.classList.toggle("grey", !view.colours.has(policy));
  };
  view.on("policies mark", follow);
  follow();
  return item;
}

function legend(holder) {
  // Those in colour at first come first, and stay there.
  const order = [...view.colours.keys(), ...policies.filter((policy) => !view.colours.has(policy))];
  const all = element("button", { type: "button", on: { click: () => view.showAll() } }, "Show all");
  const follow = () => (all.disabled = view.hidden.size === 0 && view.pinned === null);
  view.on("policies mark", follow);
  follow();
  const keys = "On a name: C in colour or grey, H hide, Enter alone.";
  holder.append(
    element("div", { class: "legend-head" }, element("h2", {}, "Policies"), all),
    element("ul", {}, ...order.map(legendEntry)),
    element("p", { class: "hint" }, "Click a name to see it alone, its line for colour or grey, × to hide it.", element("span", { class: "keys" }, ` ${keys}`)),
  );
}
