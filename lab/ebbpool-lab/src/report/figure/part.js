// The part of a chart's axes that is in sight.

// The least part of an axis that can be enlarged.
const LEAST_PART = 1e-4;

/** The value at a share of the way along an axis. */
function valueAt({ low, high, isLog = false }, share) {
  return isLog ? low * (high / low) ** share : low + share * (high - low);
}

/** `low` and `high` are the ends of the axes that are in sight, across and up; the first axis may be logarithmic. */
class VisiblePart {
  low = [0, 0];
  high = [1, 1];
  isPart = false;
  #whole = [[0, 0], [1, 1]];
  #isLog;

  constructor(isLog) {
    this.#isLog = isLog;
  }

  /** Takes the ends of the whole axes; a part stays in sight. */
  setWhole(low, high) {
    this.#whole = [low, high];
    if (!this.isPart) [this.low, this.high] = this.#whole;
  }

  #along(at) {
    return at === 0 && this.#isLog ? Math.log : (value) => value;
  }

  #length([low, high], at) {
    const along = this.#along(at);
    return along(high[at]) - along(low[at]);
  }

  /** Enlarges what lies between two shares of the way along each axis. */
  enlarge(across, up) {
    const shares = [across, up];
    const end = (which) => shares.map((ends, at) =>
      valueAt({ low: this.low[at], high: this.high[at], isLog: at === 0 && this.#isLog }, ends[which]));
    const [low, high] = [end(0), end(1)].map((ends, which) =>
      ends.map((value, at) => (which === 0 ? Math.max(value, this.#whole[0][at]) : Math.min(value, this.#whole[1][at]))));
    const parts = [0, 1].map((at) => this.#length([low, high], at) / this.#length(this.#whole, at));
    if (!parts.every((part) => part >= LEAST_PART)) return;
    if (parts.every((part) => part > 0.999)) return this.reset();
    [this.low, this.high, this.isPart] = [low, high, true];
  }

  /** Enlarges by a factor around a place, which is at these shares of the way along the axes. */
  zoom(factor, across, up) {
    const around = (share) => [share - share / factor, share + (1 - share) / factor];
    this.enlarge(around(across), around(up));
  }

  /** Moves by these shares of what is in sight, no farther than the whole reaches. */
  move(across, up) {
    if (!this.isPart) return;
    const [x, y] = [across, up].map((step, at) => {
      const along = this.#along(at);
      const length = this.#length([this.low, this.high], at);
      const room = [this.#whole[0][at], this.#whole[1][at]].map((end, which) =>
        (along(end) - along((which === 0 ? this.low : this.high)[at])) / length);
      return Math.min(Math.max(step, room[0]), room[1]);
    });
    this.enlarge([x, 1 + x], [y, 1 + y]);
  }

  reset() {
    [[this.low, this.high], this.isPart] = [this.#whole, false];
  }
}
