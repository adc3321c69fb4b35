/** What the rows of a moment say of a thing, for when nobody can be asked: in sentences. */

import { clock } from "./times.js";

/** Of what is chosen; none if there is nothing of it at that moment. */
export function seen({ kind, key }, tables) {
  if (kind === "decision") return decision(key, tables);
  const row = tables[`${kind}s`].get(key);
  return row ? SEEN[kind](row, key, tables) : [[`There is no ${kind} ${key} at this moment.`]];
}

const link = (kind, key, text = key) => ({ kind, key, text });

const SEEN = {
  pod(row, key) {
    const where = row.node ? [" on ", link("node", row.node)] : [];
    return [
      [`${key} is ${row.state}`, ...where, ", of ", link("workload", row.workload), "."],
      ...(row.message ? [[row.message]] : []),
      ...(row.rules?.length ? [[`Rejected by ${row.rules.join(", ")}.`]] : []),
      ...(row.move ? [["It is part of ", link("move", row.move, "a move"), "."]] : []),
      ...(row.scheduler ? [[`It is left to ${row.scheduler}.`]] : []),
    ];
  },
  node(row, key, { pods }) {
    const here = [...pods].filter(([, pod]) => pod.node === key);
    const what = row.tier ? `of the ${row.tier}` : "of no tier";
    return [
      [`${key} is ${what}${row.site ? `, at ${row.site}` : ""}, and has ${here.length} pods.`],
      ...(row.state ? [[`It takes no pods: it is ${row.state}.`]] : []),
    ];
  },
  workload(row, key) {
    const promised = `${Math.round(100 * (row.promise ?? 0))} % promised`;
    return [[`${key} has ${row.edge ?? 0} of its ${row.total ?? 0} pods at the edge, ${promised}.`]];
  },
  move(row) {
    return [
      [link("pod", row.pod), ` from `, link("node", row.source), ` to `, link("node", row.target),
        `: ${row.purpose}.`],
      [`It is ${row.state}${row.step ? `: ${row.step}` : ""}.`],
      ...(row.story ?? []).map(([at, words]) => [`${clock(at)}: ${words}`]),
      ...(row.reason ? [[row.reason]] : []),
      ...(row.helped ? [[row.helped]] : []),
    ];
  },
};

function decision(key, { news }) {
  return [...news.values()]
    .filter((row) => String(row.decision) === key)
    .map((row) => [`${clock(row.at)}: ${row.text}`]);
}
