/** One look for each workload, wherever it is drawn: a colour, and once those are used a pattern. */

/** Colours, and patterns over them; 0 is none. */
const [COLOURS, PATTERNS] = [10, 4];

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
  const pattern = Math.floor(index / COLOURS) % PATTERNS;
  return { colour: `var(--w${index % COLOURS})`, pattern };
}
