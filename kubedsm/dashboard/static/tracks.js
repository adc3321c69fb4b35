/** What is drawn along time, as SVG paths; and what of it is where. Pure. */

import { lastNotAfter } from "./recording.js";

/** Pixels from one line to the next, where shares are the same; so many differ. */
const [BESIDE, LINES] = [1.5, 7];
/** Rows of moves, at most; what a row is high, and a move wide, at least. */
const [ROWS, ROW, NARROW] = [4, 9, 3];
/** What the rows of moves are high together. */
export const MOVES_HEIGHT = ROWS * ROW;
/** Pixels by which one may be beside what one means. */
const NEAR = 5;

/** Where moments are, in pixels, in a stretch of time that is so wide; and the other way round. */
export function scale({ from, to }, width, ends = to) {
  const x = (at) => ((at - from) / (to - from)) * width;
  const at = (px) => from + (px / width) * (to - from);
  return Object.assign(x, { from, to, ends, at });
}

/**
 * The line of a workload's shares, with breaks where nothing is known. Of what is in the same pixel
 * the extremes are drawn. `index`: lines of the same share are side by side.
 */
export function shareLine(points, gaps, x, height, index = 0) {
  const room = BESIDE * LINES;
  const down = BESIDE * (index % LINES) + 1;
  const y = (share) => rounded((1 - share) * (height - room - 1) + down);
  let path = "";
  let pen = null;
  let column = null;
  for (const { from, to, share } of pieces(points, gaps, x)) {
    const [left, right, level] = [rounded(x(from)), rounded(x(to)), y(share)];
    if (pen !== from) path += `M${left} ${level}`;
    else if (column === Math.floor(left) && Math.floor(right) === column) path += `V${level}`;
    else path += `H${left}V${level}`;
    if (Math.floor(right) > Math.floor(left)) path += `H${right}`;
    [pen, column] = [to, Math.floor(right)];
  }
  return path;
}

/** Stretches of one share each, in what is drawn. */
function* pieces(points, gaps, x) {
  const first = lastNotAfter(points, x.from);
  for (let i = first; i < points.length && points[i].at < x.to; i += 1) {
    const { at, edge, total } = points[i];
    if (!total) continue;
    let from = Math.max(at, x.from);
    const to = Math.min(points[i + 1]?.at ?? x.ends, x.to);
    for (const gap of gaps) {
      if (gap.to <= from || gap.from >= to) continue;
      if (gap.from > from) yield { from, to: gap.from, share: edge / total };
      from = gap.to;
    }
    if (from < to) yield { from, to, share: edge / total };
  }
}

/** The moves that are drawn, each with its `row`, and from where to where it is. */
export function spans(moves, x) {
  const free = [];
  const found = [];
  for (const move of [...moves].sort((one, other) => one.begins - other.begins)) {
    const end = move.ends ?? x.ends;
    if (end < x.from || move.begins > x.to) continue;
    const left = rounded(Math.max(-NARROW, x(move.begins)));
    const right = rounded(Math.max(left + NARROW, x(Math.min(end, x.to))));
    let row = free.findIndex((from) => from <= left);
    if (row < 0) row = Math.min(free.length, ROWS - 1);
    free[row] = Math.max(free[row] ?? 0, right + 1);
    found.push({ move, row, left, right });
  }
  return found;
}

/** By state of moves, the path of their spans: each state has a shape of its own, too. */
export function spanPaths(found) {
  const paths = {};
  const height = ROW - 2;
  for (const { move: { row: { state } }, row, left, right } of found) {
    const top = row * ROW + 1;
    const shape = state === "taken back" ? `L${right} ${top}v${height}z`
      : `v${-height / 2}H${right}v${height}H${left}z`;
    const cross = state === "failed"
      ? `M${right + 2} ${top}l5 ${height}m0 ${-height}l-5 ${height}` : "";
    paths[state] = `${paths[state] ?? ""}M${left} ${top + height / 2}${shape}${cross}`;
  }
  return paths;
}

/** Paths of marks, by the kind of what happened. */
export function markPaths(marks, x, height) {
  const half = height / 2 - 2;
  const bar = `v${height - 4}`;
  const shapes = {
    plain: bar, decision: bar, changed: `l4 ${half}l-4 ${half}l-4 ${-half}z`,
    warning: `l5 ${height - 4}h-10z`,
  };
  const paths = {};
  const taken = {};
  for (const { at, warning, kind, lane } of marks) {
    if (at < x.from || at > x.to) continue;
    const name = warning ? "warning" : kind === "state" ? "changed"
      : lane === "decisions" ? "decision" : "plain";
    const px = Math.round(x(at));
    // One in two pixels is as much as can be told apart.
    if (px - taken[name] < 2) continue;
    taken[name] = px;
    paths[name] = `${paths[name] ?? ""}M${px} 2${shapes[name]}`;
  }
  return paths;
}

/** The marks that are near a place, the nearest first. */
export function marksNear(marks, x, px) {
  return nearest(marks, ({ at }) => Math.abs(x(at) - px));
}

/** The move whose span is at a place, or near it. */
export function moveNear(found, px, y) {
  const row = Math.min(ROWS - 1, Math.max(0, Math.floor(y / ROW)));
  const there = found.filter((span) => span.row === row);
  return nearest(there, ({ left, right }) => Math.max(left - px, px - right, 0))[0]?.move;
}

function nearest(all, away) {
  return all.filter((one) => away(one) <= NEAR).sort((one, other) => away(one) - away(other));
}

/** The shares of workloads as they were at a moment. */
export function sharesAt(shares, moment) {
  return [...shares].map(([workload, points]) => (
    { workload, ...points[lastNotAfter(points, moment)] }
  )).filter((point) => point.total && point.at <= moment);
}

function rounded(px) {
  return Math.round(px * 10) / 10;
}
