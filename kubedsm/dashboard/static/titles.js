/** What is said of a thing while the pointer is on it: one or two short lines. */

import { progress } from "./arcs.js";
import { percent } from "./words.js";

const MIB = 2 ** 20;

/** Of { kind, key }; empty if it is not there. */
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
