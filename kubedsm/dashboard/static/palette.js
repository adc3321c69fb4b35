/** Colours of workloads: ten have their own, all others share one. */

const COLOURS = 10;
/** Colour of the workloads without a colour of their own, and of other schedulers' pods. */
export const OTHERS = "var(--others)";

/** Colours by workload; a workload keeps its colour, unless it is gone and another one needs it. */
const kept = new Map();
/** Rankings whose workloads have their colours. */
const served = new WeakSet();

/** Names of the workloads that get the colours, in this order: those with most pods first. */
export function ranked(workloads) {
  return [...workloads].sort(([one, { total: a }], [other, { total: b }]) => (
    b - a || (one < other ? -1 : 1))).map(([name]) => name);
}

/** Return the colour of a workload among `all` of them, as `ranked`. */
export function colourOf(workload, all) {
  if (!served.has(all)) serve(all);
  return kept.get(workload) ?? OTHERS;
}

function serve(all) {
  served.add(all);
  const there = new Set(all);
  const gone = [...kept.keys()].filter((each) => !there.has(each));
  for (const each of all) {
    if (kept.has(each)) continue;
    const colour = kept.size < COLOURS ? `var(--w${kept.size})` : kept.get(gone[0]);
    if (!colour) break;
    if (kept.size === COLOURS) kept.delete(gone.shift());
    kept.set(each, colour);
  }
}
