// Ticks of memory axes.

/** Ticks at a trace's memory sizes. */
function memoryTicks(trace) {
  const ticks = new Map();
  for (const at of trace.sizesInOrder) {
    const size = trace.sizes[at];
    const lines = [
      size.text.endsWith("%") ? written.size(size) : null,
      size.bytes === null ? null : written.bytes(size.bytes),
      written.count(size.frames),
    ];
    const text = lines.filter((line) => line !== null).join("\n");
    if (!ticks.has(size.frames)) ticks.set(size.frames, { at: size.frames, text });
  }
  return [...ticks.values()];
}

/** At most `most` ticks at round numbers of bytes, for a logarithmic axis of pages of `page` bytes. */
function byteTicks(low, high, most, page) {
  const [first, last] = [Math.ceil(Math.log2(low * page)), Math.floor(Math.log2(high * page))];
  for (const every of [1, 2, 5, 10]) {
    const powers = [];
    for (let power = first; power <= last; power += 1) if (power % every === 0) powers.push(power);
    if (powers.length > most) continue;
    if (powers.length < 2) break;
    return powers.map((power) => ({ at: 2 ** power / page, text: written.bytes(2 ** power) }));
  }
  const unit = 1024 ** Math.max(0, Math.floor(Math.log2(high * page) / 10));
  const ticks = linearTicks((low * page) / unit, (high * page) / unit, Math.max(1, most - 1));
  return ticks.map((amount) => ({ at: (amount * unit) / page, text: written.bytes(amount * unit) }));
}
