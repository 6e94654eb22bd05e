// What the reader has chosen: policies in colour, alone or hidden, and per trace a memory size and an R.

// More lines in colour than these are hard to follow.
const MOST_IN_COLOUR = 6;

// Hues in the order in which they are given to policies whose own is taken, and those that are hard to distinguish.
const HUES = ["ink", "green", "red", "blue", "purple", "pink", "amber", "cyan", "olive"];
const ALIKE = [["blue", "cyan"], ["amber", "olive"], ["amber", "red"], ["green", "olive"], ["green", "cyan"]];

function areAlike(one, other) {
  return one === other || ALIKE.some((pair) => pair.includes(one) && pair.includes(other));
}

class View extends EventTarget {
  hidden = new Set();
  /** The policies in colour, each with its hue; the others are grey. */
  colours = new Map();
  pinned = null;
  pointed = null;

  /** Whether a hue is like that of no policy in colour. */
  #isFree(hue) {
    return hue !== "grey" && ![...this.colours.values()].some((other) => areAlike(hue, other));
  }

  /** Draws policies in colour: in their own hues as far as these are not alike, the others in hues that are free. */
  colour(chosen) {
    const own = (policy) => marks.get(policy).hue;
    const hues = new Map();
    for (const policy of chosen) {
      if (!this.#isFree(own(policy))) continue;
      hues.set(policy, own(policy));
      this.colours.set(policy, own(policy));
    }
    for (const policy of chosen.filter((policy) => !hues.has(policy))) {
      const taken = [...this.colours.values()];
      const hue = HUES.find((hue) => this.#isFree(hue)) ?? HUES.find((hue) => !taken.includes(hue)) ?? own(policy);
      hues.set(policy, hue);
      this.colours.set(policy, hue);
    }
    // In the order given, which is that of importance.
    for (const policy of chosen) this.colours.delete(policy);
    for (const policy of chosen) this.colours.set(policy, hues.get(policy));
  }

  toggleColour(policy) {
    if (!this.colours.delete(policy)) this.colour([policy]);
    this.notify("policies");
    this.notify("mark");
  }

  /** Gives each policy its colour on the whole page; a grey one has its own while it is marked. */
  paint() {
    const { marked } = this;
    policies.forEach((policy, at) => {
      const hue = this.colours.get(policy) ?? (policy === marked ? marks.get(policy).hue : "faint");
      document.documentElement.style.setProperty(`--policy-${at}`, `var(--${hue})`);
    });
  }

  shows(policy) {
    return !this.hidden.has(policy);
  }

  get marked() {
    const policy = this.pointed ?? this.pinned;
    return policy !== null && this.shows(policy) ? policy : null;
  }

  toggle(policy) {
    if (!this.hidden.delete(policy)) this.hidden.add(policy);
    this.notify("policies");
  }

  showAll() {
    this.hidden.clear();
    this.pinned = null;
    this.notify("policies");
    this.notify("mark");
  }

  pin(policy) {
    this.pinned = this.pinned === policy ? null : policy;
    this.notify("mark");
  }

  point(policy) {
    if (this.pointed === policy) return;
    this.pointed = policy;
    this.notify("mark");
  }

  notify(event) {
    this.paint();
    this.dispatchEvent(new Event(event));
  }

  on(events, listener) {
    for (const event of events.split(" ")) this.addEventListener(event, listener);
  }
}

const view = new View();

/**
 * The policies to draw in colour, the most important first: the best, the baseline, ebb, those that are best in most
 * fields, and then the next best.
 */
function policiesInColour(traces) {
  const distance = (policy) => {
    const of = traces.filter((trace) => trace.policies.includes(policy)).map((trace) => trace.distance(policy));
    return of.reduce((a, b) => a + b, 0) / of.length;
  };
  const distances = new Map(policies.map((policy) => [policy, distance(policy)]));
  const byDistance = [...policies].sort((a, b) => distances.get(a) - distances.get(b) || 0);
  const wins = new Map();
  for (const trace of traces) {
    for (const [size, asymmetry] of trace.fields) {
      const winner = trace.best(size, asymmetry)?.policy;
      if (winner !== undefined) wins.set(winner, (wins.get(winner) ?? 0) + 1);
    }
  }
  const winners = [...wins.keys()].sort((a, b) => wins.get(b) - wins.get(a));
  const compared = [report.baseline, ...policies.filter((policy) => policy.split(":")[0] === "ebb")];
  const order = [byDistance[0], ...compared, ...winners, ...byDistance];
  return [...new Set(order)].filter((policy) => policies.includes(policy)).slice(0, MOST_IN_COLOUR);
}

/** A memory size and an asymmetry of a trace; at first those that the sentence speaks of. */
class Choice extends EventTarget {
  constructor(trace) {
    super();
    this.trace = trace;
    const usual = trace.labels.indexOf("32");
    this.asymmetry = usual >= 0 ? usual : trace.labels.indexOf(trace.labels.at(-1));
    const marked = trace.curve?.mark?.[0] ?? null;
    const size = trace.sizes.find((size) => (marked === null ? size.text === "3%" : size.frames === marked));
    const { frames } = size ?? trace.sizes[Math.floor(trace.sizes.length / 2)];
    this.size = trace.sizes.findIndex((size) => size.frames === frames);
  }

  get ratio() {
    return this.trace.asymmetries[this.asymmetry];
  }

  choose(size, asymmetry) {
    this.size = size;
    this.asymmetry = asymmetry;
    this.dispatchEvent(new Event("choice"));
  }

  on(listener) {
    this.addEventListener("choice", listener);
    view.on("policies", listener);
    listener();
  }

  /** Controls to choose with, and on paper what was chosen. */
  chooser() {
    const { trace } = this;
    const select = (label, order, text, chosen, choose) => {
      const options = order.map((at) => element("option", { value: at }, text(at)));
      const control = element("select", { on: { change: () => choose(+control.value) } }, ...options);
      const follow = () => (control.value = chosen());
      this.addEventListener("choice", follow);
      follow();
      return element("label", {}, `${label} `, control);
    };
    const memory = select(
      "Memory",
      trace.sizesInOrder,
      (at) => written.memory(trace.sizes[at]),
      () => this.size,
      (at) => this.choose(at, this.asymmetry),
    );
    const asymmetry = select(
      "R",
      trace.asymmetriesInOrder,
      (at) => trace.ratioText(at),
      () => this.asymmetry,
      (at) => this.choose(this.size, at),
    );
    const chosen = element("p", { class: "on-paper" });
    const describe = () => {
      const size = written.memory(trace.sizes[this.size]);
      chosen.textContent = `At ${size}${trace.device === null ? ` and ${trace.place(this.asymmetry)}` : ""}`;
    };
    this.addEventListener("choice", describe);
    describe();
    return element("div", { class: "controls" }, memory, trace.device === null ? asymmetry : null, chosen);
  }
}
