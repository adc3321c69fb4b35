/** One look for each workload, wherever it is drawn: a colour, and once those are used a pattern. */

const COLOURS = 10;

/** What is drawn over the colour, by number of the pattern, on a tile of 6 by 6. */
export const HATCHES = ["", "M0 6L6 0M-1 1L1 -1M5 7L7 5", "M0 0L6 6M-1 5L1 7M5 -1L7 1", "M3 0V6"];

/** Of pods that are none of ours. */
const OTHERS = { colour: "var(--soft)", pattern: 0 };

/** A workload keeps its look as long as the page is open, whoever comes and goes beside it. */
const kept = new Map();

/** Of one workload among all of them, sorted: two are alike only if 39 came between them. */
export function looks(workload, all) {
  if (!kept.has(workload)) {
    for (const each of all) if (!kept.has(each)) kept.set(each, numbered(kept.size));
  }
  return kept.get(workload) ?? OTHERS;
}

function numbered(index) {
  const pattern = Math.floor(index / COLOURS) % HATCHES.length;
  return { colour: `var(--w${index % COLOURS})`, pattern };
}
