// What the reader has chosen: policies hidden and marked, and per trace a memory size and an R.

class View extends EventTarget {
  hidden = new Set();
  pinned = null;
  pointed = null;

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
    this.notify("policies");
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
    this.dispatchEvent(new Event(event));
  }

  on(events, listener) {
    for (const event of events.split(" ")) this.addEventListener(event, listener);
  }
}

const view = new View();

/** A memory size and an asymmetry of a trace; at first those that the sentence speaks of. */
class Choice extends EventTarget {
  constructor(trace) {
    super();
    this.trace = trace;
    const usual = trace.labels.indexOf("32");
    this.asymmetry = usual >= 0 ? usual : trace.asymmetries.length - 1;
    const size = trace.sizes.findIndex((size) => size.text === "3%");
    this.size = size >= 0 ? size : Math.floor(trace.sizes.length / 2);
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
