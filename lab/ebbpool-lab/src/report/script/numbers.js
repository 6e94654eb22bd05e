// How numbers and sizes are written.

const NONE = "–";
const UNITS = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];

const written = {
  count: (value) => value.toLocaleString("en-US"),
  bill: (value) => (value < 10 ? value.toFixed(4) : value.toFixed(2)),
  short: shortText,
  share: (value) => `${(100 * value).toFixed(1)} %`,
  // A saving of 0.04 % is neither a saving nor a loss.
  saving: (value) => {
    if (value === null) return NONE;
    const rounded = value.toFixed(1);
    if (+rounded === 0) return "0.0 %";
    return `${value > 0 ? "+" : "−"}${rounded.replace("-", "")} %`;
  },
  size: (size) => (size.text.endsWith("%") ? `${size.text.slice(0, -1)} %` : written.count(size.frames)),
  // The shortest exact size, else one of three digits.
  bytes: (bytes) => {
    const step = Math.min(UNITS.length - 1, Math.max(0, Math.floor(Math.log2(Math.max(bytes, 1)) / 10)));
    const amount = bytes / 1024 ** step;
    const text = amount < 100 && amount % 1 !== 0 ? String(+amount.toPrecision(3)) : written.count(Math.round(amount));
    return `${text} ${UNITS[step]}`;
  },
  // Three digits, whole from a hundred on.
  amount: (value) => {
    if (value >= 100) return written.count(Math.round(value));
    return value > 0 && value < 0.001 ? value.toExponential(1) : String(+value.toPrecision(3));
  },
  memory: (size) => {
    const frames = `${written.count(size.frames)} frames`;
    const bytes = size.bytes === null ? null : written.bytes(size.bytes);
    if (size.text.endsWith("%")) return `${written.size(size)} (${[frames, bytes].filter((text) => text !== null).join(", ")})`;
    return bytes === null ? frames : `${frames} (${bytes})`;
  },
};
