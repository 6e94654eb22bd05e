// Scales and ticks of axes: from numbers to positions, ticks and texts, with no element of the page. axes.rs has
// the same for pictures; both compute the cases of axes.json.

// An end of an axis may miss a tick by what the end's own computation rounded.
const SLACK = 1e-9;

/** Maps the values of an axis to positions. It runs from `low` at `from` to `high` at `to`. */
function scaleOf({ low, high, isLog = false }, from, to) {
  const along = isLog ? Math.log : (value) => value;
  const factor = (to - from) / (along(high) - along(low));
  return (value) => from + (along(value) - along(low)) * factor;
}

/** `digits` × 10 ** `power`, the double nearest to it: below one a quotient is exact, a product is not. */
function decimal(digits, power) {
  return power < 0 ? digits / 10 ** -power : digits * 10 ** power;
}

/** Multiples of 1, 2, 2.5 or 5 times a power of ten from low to high, at most `most` steps of them. */
function linearTicks(low, high, most) {
  const rough = (high - low) / most;
  if (!(rough > 0 && rough < Infinity)) return [];
  const power = Math.floor(Math.log10(rough)) - 1;
  const digits = [10, 20, 25, 50, 100].find((digits) => decimal(digits, power) >= rough);
  const step = decimal(digits, power);
  const ticks = [];
  // Adding zero makes a positive zero of a negative one.
  for (let at = Math.ceil(low / step - SLACK) + 0; at <= high / step + SLACK; at += 1) {
    ticks.push(decimal(at * digits, power));
  }
  return ticks;
}

/**
 * At most `most` ticks of a logarithmic axis from low to high: 1, 2 and 5 times powers of ten, powers
 * alone where those are too many, each second or third power where these are. An axis too short for
 * two of them is nearly linear and has linear ticks.
 */
function logTicks(low, high, most) {
  if (!(low > 0 && low < high && high < Infinity)) return [];
  const first = Math.floor(Math.log10(low));
  const last = Math.floor(Math.log10(high)) + 1;
  const ticksOf = (digits, every) => {
    const ticks = [];
    for (let power = first; power <= last; power += 1) {
      if (power % every === 0) ticks.push(...digits.map((digit) => decimal(digit, power)));
    }
    return ticks.filter((tick) => low * (1 - SLACK) <= tick && tick <= high * (1 + SLACK));
  };
  const choices = [ticksOf([1, 2, 5], 1)];
  for (let every = 1; every <= last - first + 1; every += 1) choices.push(ticksOf([1], every));
  const ticks = choices.find((ticks) => ticks.length <= most) ?? [];
  return ticks.length >= 2 ? ticks : linearTicks(low, high, Math.max(1, most - 1));
}

const MOST_DECIMALS = 6;

/** The texts of a linear axis' ticks: one unit for all of them, and the same number of decimals. */
function tickTexts(ticks) {
  const size = Math.max(...ticks.map(Math.abs));
  const [unit, name] = size >= 1e6 ? [1e6, " M"] : size >= 1e4 ? [1e3, " k"] : [1, ""];
  const step = ticks.length > 1 ? ticks[1] - ticks[0] : size;
  const isWhole = (value, step) => Math.abs(value - Math.round(value)) <= 1e-3 * step;
  let decimals = 0;
  const scaled = (value) => (value / unit) * 10 ** decimals;
  while (!ticks.every((tick) => isWhole(scaled(tick), scaled(step)))) {
    decimals += 1;
    if (decimals > MOST_DECIMALS) return ticks.map((tick) => String(+tick.toPrecision(12)).replaceAll("-", "−"));
  }
  const format = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
  const text = (tick) => `${(tick / unit).toLocaleString("en-US", format)}${name}`.replace("-", "−");
  return ticks.map((tick) => (tick === 0 ? "0" : text(tick)));
}

/** A number of about three digits: for logarithmic axes and single values. */
function shortText(value) {
  if (value >= 1e6) return `${+(value / 1e6).toPrecision(3)} M`;
  if (value >= 1e4) return `${+(value / 1e3).toPrecision(3)} k`;
  if (value >= 1e3) return Math.round(value).toLocaleString("en-US");
  return String(+value.toPrecision(4)).replaceAll("-", "−");
}
