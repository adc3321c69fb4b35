/** One look for each workload, wherever it is drawn: its colour, and its pattern for eyes without. */

const COLOURS = 8;
const PATTERNS = 4;

/** Of one workload among all of them, sorted: two are alike only if they are 32 apart. */
export function looks(workload, all) {
  const index = Math.max(0, all.indexOf(workload));
  return {
    colour: `var(--w${index % COLOURS})`,
    pattern: (index + Math.floor(index / COLOURS)) % PATTERNS,
  };
}
