/** What is different between two moments. */

/**
 * From `before` to `after`, both tables: `moved`, `came` and `went` are of pods by their keys, each
 * with `workload`, `from` and `to` (nodes; empty: none); of a pod that another one took the place
 * of, `replaced` is its key. `shares` are of workloads, `nodes` of nodes whose state is another one.
 */
export function differences(before, after) {
  const pods = { moved: new Map(), came: new Map(), went: new Map() };
  for (const [key, row] of after.pods) {
    const old = before.pods.get(key);
    if (old === row) continue;
    if (!old) pods.came.set(key, { workload: row.workload, from: "", to: row.node ?? "" });
    else if (old.node && row.node && old.node !== row.node) {
      pods.moved.set(key, { workload: row.workload, from: old.node, to: row.node });
    }
  }
  for (const [key, row] of before.pods) {
    if (!after.pods.has(key)) {
      pods.went.set(key, { workload: row.workload, from: row.node ?? "", to: "" });
    }
  }
  takePlaces(pods, [...before.moves.values(), ...after.moves.values()]);
  return { ...pods, shares: shares(before, after), nodes: nodes(before, after) };
}

/** A pod that came for another one, which went, was moved; there may be several, one by one. */
function takePlaces({ moved, came, went }, moves) {
  const successors = new Map(moves.filter((move) => move.replacement)
    .map((move) => [move.pod, move.replacement]));
  for (const [pod, { workload, from }] of went) {
    const passed = new Set([pod]);
    let last = pod;
    while (successors.has(last) && !passed.has(successors.get(last))) {
      last = successors.get(last);
      passed.add(last);
    }
    const there = came.get(last);
    if (!there) continue;
    moved.set(last, { workload, from, to: there.to, replaced: pod });
    went.delete(pod);
    came.delete(last);
  }
}

function shares(before, after) {
  const keys = [...new Set([...before.workloads.keys(), ...after.workloads.keys()])].sort();
  const none = { edge: 0, total: 0 };
  return keys.map((workload) => ({
    workload,
    before: before.workloads.get(workload) ?? none,
    after: after.workloads.get(workload) ?? none,
  })).filter((each) => each.before.edge !== each.after.edge || each.before.total !== each.after.total);
}

function nodes(before, after) {
  const found = [];
  for (const [node, row] of after.nodes) {
    const old = before.nodes.get(node);
    const [was, is] = [old ? old.state || "in use" : "not there", row.state || "in use"];
    if (was !== is) found.push({ node, was, is });
  }
  for (const [node, row] of before.nodes) {
    if (!after.nodes.has(node)) found.push({ node, was: row.state || "in use", is: "gone" });
  }
  return found;
}
