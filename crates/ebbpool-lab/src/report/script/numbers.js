// How numbers and sizes are written.

const NONE = "–";

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
  memory: (size) =>
    size.text.endsWith("%")
      ? `${written.size(size)} (${written.count(size.frames)} frames)`
      : `${written.count(size.frames)} frames`,
};
