/** What the rows of a moment say of a thing, for when nobody can be asked: in sentences. */

import { clock } from "./times.js";
import { percent } from "./words.js";

/** Of what is chosen; none if there is nothing of it at that moment. */
export function seen({ kind, key }, tables) {
  const row = kind === "decision" ? key : tables[`${kind}s`].get(key);
  if (!row) return [[`There is no ${kind} ${key} at this moment.`]];
  return SEEN[kind](row, key, tables).filter(Boolean);
}

const link = (kind, key, text = key) => ({ kind, key, text });

/** By kind, its sentences; some may be none. */
const SEEN = {
  pod: ({ state, node, workload, message, rules, move, scheduler }, key) => [
    [`${key} is ${state}`, ...(node ? [" on ", link("node", node)] : []),
      ", of ", link("workload", workload), "."],
    message && [message],
    rules && [`Rejected by ${rules.join(", ")}.`],
    move && ["It is part of ", link("move", move, "a move"), "."],
    scheduler && [`It is left to ${scheduler}.`],
  ],
  node({ tier, site, state }, key, { pods }) {
    const here = [...pods.values()].filter(({ node }) => node === key).length;
    const what = tier ? `of the ${tier}` : "of no tier";
    return [
      [`${key} is ${what}${site ? `, at ${site}` : ""}, and has ${here} pods.`],
      state && [`It takes no pods: it is ${state}.`],
    ];
  },
  workload({ edge, total, promise }, key) {
    const promised = promise === undefined ? "" : `, ${percent(promise)} promised`;
    return [[`${key} has ${edge} of its ${total} pods at the edge${promised}.`]];
  },
  move: ({ pod, source, target, purpose, state, step, story = [], reason, helped }) => [
    [link("pod", pod), " from ", link("node", source), " to ", link("node", target),
      `: ${purpose}.`],
    [`It is ${state}${step ? `: ${step}` : ""}.`],
    ...story.map(([at, words]) => [`${clock(at)}: ${words}`]),
    reason && [reason],
    helped && [helped],
  ],
  decision: (number, _, { news }) => [...news.values()]
    .filter(({ decision }) => String(decision) === number)
    .map(({ at, text }) => [`${clock(at)}: ${text}`]),
};
