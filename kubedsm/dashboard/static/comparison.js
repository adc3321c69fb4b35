/** Comparison of two moments: the differences, and the words for them. */

import { clock, lasting } from "./formats.js";
import { Items, Name } from "./lists.js";
import { tablesAt } from "./recording.js";
import { html, useMemo } from "./vendor/htm-preact.js";

/** What is different from the earlier to the later one of the moments, of each recording. */
export function Comparison({ recordings, titles, state, moment, set }) {
  if (state.compared == null) return null;
  const [from, to] = [state.compared, moment].sort((one, other) => one - other);
  if (to - from < 0.01) {
    return html`<p class="comparison">Go to another moment to see the differences.</p>`;
  }
  const [before, after] = [tablesAt(recordings, from), tablesAt(recordings, to)];
  return html`
    <section class="comparison" aria-labelledby="comparison">
      <h2 id="comparison">From ${clock(from)} to ${clock(to)}, ${lasting(to - from)}</h2>
      ${recordings.map((_, recording) => html`
        ${recordings.length > 1 && html`<h3>${titles[recording]}</h3>`}
        <${Differences} before=${before[recording]} after=${after[recording]} state=${state}
          set=${({ chosen }) => set({ chosen: { ...chosen, recording } })} />`)}
    </section>`;
}

function Differences({ before, after, state, set }) {
  const found = useMemo(() => differences(before, after), [before, after]);
  const { moved, came, went, shares, nodes } = found;
  const list = (name, all, tell) => all.length > 0 && html`
    <div>
      <h3>${name} <span>${all.length}</span></h3>
      <${Items} items=${all} first=${6}>${(one) => html`<li>${tell(one)}</li>`}<//>
    </div>`;
  const pod = (key) => html`<${Name} kind="pod" name=${key} ...${{ state, set }} />`;
  const then = ({ key, was, is }) => `${key} ${was}, then ${is}`;
  const lists = [
    list("Migrated", [...moved], ([key, { from, to, replaced }]) => html`
      ${pod(key)} ${from || "no node"} to ${to || "no node"}${
        replaced && `, in place of ${replaced}`}`),
    list("Came", [...came], ([key, { to }]) => html`
      ${pod(key)} ${to ? `on ${to}` : "without a node"}`),
    list("Went", [...went], ([key, { from }]) => html`${pod(key)} ${from && `from ${from}`}`),
    list("At the edge", shares, then),
    list("Nodes", nodes, then),
  ];
  return lists.some(Boolean) ? html`<div class="differences">${lists}</div>`
    : html`<p>No differences.</p>`;
}

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
