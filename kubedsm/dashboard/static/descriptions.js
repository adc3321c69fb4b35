/** Descriptions of rows in words: hints, and sentences for recordings without a server. */

import { progress } from "./arcs.js";
import { clock, percent } from "./formats.js";

/** Return the sentences about a selected object, as of the tables' moment. */
export function seen({ kind, key }, tables) {
  const row = kind === "decision" ? key : tables[`${kind}s`].get(key);
  if (!row) return [[`There is no ${kind} ${key} at this moment.`]];
  return SEEN[kind](row, key, tables).filter(Boolean);
}

const link = (kind, key, text = key) => ({ kind, key, text });

/** Sentences by kind of object; empty ones are dropped. */
const SEEN = {
  pod: ({ state, node, workload, message, rules, move, scheduler }, key) => [
    [`${key} is ${state}`, ...(node ? [" on ", link("node", node)] : []),
      ", of ", link("workload", workload), "."],
    message && [message],
    rules && [`Rejected by ${rules.join(", ")}.`],
    move && ["It is part of ", link("move", move, "a migration"), "."],
    scheduler && [`It belongs to the scheduler ${scheduler}.`],
  ],
  node({ tier, site, state }, key, { pods }) {
    const here = [...pods.values()].filter(({ node }) => node === key).length;
    const what = tier ? `of the ${tier}` : "of no tier";
    return [
      [`${key} is ${what}${site ? `, at ${site}` : ""}, and has ${here} pods.`],
      state && [`It accepts no pods: it is ${state}.`],
    ];
  },
  workload({ edge, total, target }, key) {
    const targetText = target === undefined ? "" : `, target ${percent(target)}`;
    return [[`${key} has ${edge} of its ${total} pods at the edge${targetText}.`]];
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

const MIB = 2 ** 20;

/** Return the tooltip of { kind, key }; empty if the object does not exist. */
export function title({ kind, key }, { nodes, pods, moves }) {
  if (kind === "node") return nodes.has(key) ? ofNode(key, nodes.get(key), pods) : "";
  if (kind === "move") return moves.has(key) ? ofMove(moves.get(key)) : "";
  return pods.has(key) ? ofPod(key, pods.get(key)) : "";
}

function ofNode(name, { tier, site, state, cpu, memory, cpuUsed, memoryUsed }, pods) {
  let [count, cores, bytes] = [0, 0, 0];
  for (const [, pod] of pods) {
    if (pod.node !== name) continue;
    count += 1;
    cores += pod.cpu ?? 0;
    bytes += pod.memory ?? 0;
  }
  const used = [
    cpuUsed == null ? "" : `cpu ${percent(cpuUsed)}`,
    memoryUsed == null ? "" : `memory ${percent(memoryUsed)}`,
  ].filter(Boolean).join(", ");
  return [
    [name, tier ?? "not ours", site && `site ${site}`, state].filter(Boolean).join(" · "),
    `${count} pods request ${cores / 1000} of ${cpu / 1000} cpu, `
      + `${size(bytes)} of ${size(memory)}`,
    used && `measured: ${used}`,
  ].filter(Boolean).join("\n");
}

function ofPod(key, { state, node, cpu = 0, memory = 0, message, rules = [], scheduler }) {
  const where = node ? `${state} on ${node}` : state;
  return [
    key,
    `${where} · requests ${cpu / 1000} cpu, ${size(memory)}`,
    message || rules.join(", "),
    scheduler && `of ${scheduler}`,
  ].filter(Boolean).join("\n");
}

function ofMove(move) {
  return `${move.pod}\n${move.source} to ${move.target} · ${progress(move)}\n${move.purpose}`;
}

function size(bytes) {
  const mib = bytes / MIB;
  return mib < 1000 ? `${Math.round(mib)} MiB` : `${Math.round(mib / 102.4) / 10} GiB`;
}
