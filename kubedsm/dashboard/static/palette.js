/** Colours of workloads: ten have their own, all others share one. */

const COLOURS = 10;
/** Colour of the workloads without a colour of their own, and of other schedulers' pods. */
export const OTHERS = "var(--others)";

/** Colours in use, by workload; a workload keeps its colour as long as the page is open. */
const kept = new Map();

/** Names of the workloads that get the colours, in this order: those with most pods first. */
export function ranked(workloads) {
  return [...workloads].sort(([one, { total: a }], [other, { total: b }]) => (
    b - a || (one < other ? -1 : 1))).map(([name]) => name);
}

/** Return the colour of a workload among `all` of them, as `ranked`. */
export function colourOf(workload, all) {
  for (const each of all) {
    if (kept.size === COLOURS) break;
    if (!kept.has(each)) kept.set(each, `var(--w${kept.size})`);
  }
  return kept.get(workload) ?? OTHERS;
}
