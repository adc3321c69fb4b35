/** Migrations and marks over time as SVG paths, and a search for the nearest. */

/** Most rows of migrations; height of a row, and least width of a migration, in pixels. */
const [ROWS, ROW, NARROW] = [4, 9, 3];
/** Height of all rows of migrations. */
export const MOVES_HEIGHT = ROWS * ROW;
/** Largest distance of a pointer from its target, in pixels. */
const NEAR = 5;

/** Return the function from moments to pixels for a time range and width; `at` is its inverse. */
export function scale({ from, to }, width, ends = to) {
  const x = (at) => ((at - from) / (to - from)) * width;
  const at = (px) => from + (px / width) * (to - from);
  return Object.assign(x, { from, to, ends, at });
}

/** Return the visible migrations, each with `row`, `left` and `right`. */
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

/** Return the path of all spans by state of migrations: each state has its own shape. */
export function spanPaths(found) {
  const paths = {};
  const height = ROW - 2;
  for (const { move: { row: { state } }, row, left, right } of found) {
    const top = row * ROW + 1;
    const shape = state === "rolled back" ? `L${right} ${top}v${height}z`
      : `v${-height / 2}H${right}v${height}H${left}z`;
    const cross = state === "failed"
      ? `M${right + 2} ${top}l5 ${height}m0 ${-height}l-5 ${height}` : "";
    paths[state] = `${paths[state] ?? ""}M${left} ${top + height / 2}${shape}${cross}`;
  }
  return paths;
}

/** Return the paths of marks, by kind of news. */
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
    // Marks less than two pixels apart look like one.
    if (px - taken[name] < 2) continue;
    taken[name] = px;
    paths[name] = `${paths[name] ?? ""}M${px} 2${shapes[name]}`;
  }
  return paths;
}

/** Return the marks near a position, the nearest first. */
export function marksNear(marks, x, px) {
  return nearest(marks, ({ at }) => Math.abs(x(at) - px));
}

/** Return the migration whose span is at or near a position. */
export function moveNear(found, px, y) {
  const row = Math.min(ROWS - 1, Math.max(0, Math.floor(y / ROW)));
  const there = found.filter((span) => span.row === row);
  return nearest(there, ({ left, right }) => Math.max(left - px, px - right, 0))[0]?.move;
}

function nearest(all, away) {
  return all.filter((one) => away(one) <= NEAR).sort((one, other) => away(one) - away(other));
}

function rounded(px) {
  return Math.round(px * 10) / 10;
}
