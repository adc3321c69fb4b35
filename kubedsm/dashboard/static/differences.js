/** What is different between two moments. */

/**
 * From `before` to `after`, both tables: `moved`, `came` and `went` are of pods by their keys, each
 * `from` one node `to` another (empty: none); of a pod that another one took the place of,
 * `replaced` is its key. Of `shares` of workloads and `nodes`: what each was and is, in words.
 */
export function differences(before, after) {
  const pods = { moved: new Map(), came: new Map(), went: new Map() };
  for (const key of changed(before.pods, after.pods)) {
    const [old, row] = [before.pods.get(key), after.pods.get(key)];
    const [from, to] = [old?.node ?? "", row?.node ?? ""];
    if (!old) pods.came.set(key, { from, to });
    else if (!row) pods.went.set(key, { from, to });
    else if (from && to && from !== to) pods.moved.set(key, { from, to });
  }
  takePlaces(pods, [...before.moves.values(), ...after.moves.values()]);
  return {
    ...pods,
    shares: inWords(before.workloads, after.workloads,
      (row) => (row?.total ? `${row.edge} of ${row.total}` : "no pods")),
    nodes: inWords(before.nodes, after.nodes, (row) => (row ? row.state || "in use" : "not there")),
  };
}

/** Keys of rows that are not the same. */
function changed(before, after) {
  return [...new Set([...before.keys(), ...after.keys()])]
    .filter((key) => before.get(key) !== after.get(key)).sort();
}

function inWords(before, after, words) {
  return changed(before, after)
    .map((key) => ({ key, was: words(before.get(key)), is: words(after.get(key)) }))
    .filter(({ was, is }) => was !== is);
}

/** A pod that came for another one, which went, was moved; there may be several, one by one. */
function takePlaces({ moved, came, went }, moves) {
  const successors = new Map(moves.filter((move) => move.replacement)
    .map((move) => [move.pod, move.replacement]));
  for (const [pod, { from }] of went) {
    const passed = new Set();
    let last = pod;
    while (successors.has(last) && !passed.has(last)) {
      passed.add(last);
      last = successors.get(last);
    }
    if (!came.has(last)) continue;
    moved.set(last, { from, to: came.get(last).to, replaced: pod });
    went.delete(pod);
    came.delete(last);
  }
}
