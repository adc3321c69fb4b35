/** Moves, each an arc from where its pod is to where it goes, with its step in words. */

import { add, change, shortened } from "./svg.js";

/** How far an arc swings out, as a part of its length. */
const SWING = 0.16;
/** Steps are told in words on so few arcs, and one for each so many pixels of width. */
const [WORDED, WORDS] = [8, 300];
const [LETTER, LINE] = [6.2, 17];
/** The longest label, in letters. */
const LONGEST = 52;
/** Seconds that an arc stays once its move is over: most take half a second. */
const STAYS = 2;

/**
 * The moves that have an arc at a moment: those under way and just over, those of the last
 * proposal, and the chosen one.
 */
export function arched(moves, chosen, at) {
  let last = 0;
  for (const [, move] of moves) if (move.state === "proposed") last = Math.max(last, move.decision);
  return [...moves].filter(([id, move]) => (
    move.state === "moving" || move.state === "planned" || isJustOver(move, at)
    || (move.state === "proposed" && move.decision === last)
    || (chosen?.kind === "move" && chosen.key === id)));
}

/** Not those that were dropped before they began. */
function isJustOver({ began = 0, ended = 0 }, at) {
  return began > 0 && ended > 0 && at - ended < STAYS;
}

/** How far a move is, in a few words. */
export function progress({ state, step, done = 0, steps = 0 }) {
  if (state !== "moving") return state;
  return [steps ? `${done} of ${steps}` : "", step].filter(Boolean).join(": ");
}

export class Arcs {
  #arcs = new Map();

  constructor(layer) {
    this.layer = layer;
  }

  /** `ends(id, move)`: where it begins and ends, two points, or null if it cannot be drawn. */
  draw(moves, ends, { scale, chosen, width, at }) {
    const shown = new Map();
    for (const [id, move] of moves) {
      const points = ends(id, move);
      if (points) shown.set(id, { move, points });
    }
    for (const [id, arc] of this.#arcs) {
      if (shown.has(id)) continue;
      arc.group.remove();
      this.#arcs.delete(id);
    }
    const taken = [];
    const worded = shown.size <= Math.min(WORDED, width / WORDS);
    for (const [id, { move, points }] of shown) {
      const arc = this.#arcs.get(id) ?? this.#made(id);
      const { d, middle } = curve(...points);
      const own = chosen?.kind === "move" && chosen.key === id;
      const gone = isJustOver(move, at) && !own ? Math.max(0, at - move.ended) / STAYS : 0;
      arc.group.style.opacity = 1 - 0.8 * gone;
      change(arc.group, {
        class: `arc ${move.state.replace(" ", "-")}${own ? " chosen" : ""}`,
        "aria-label": `${move.pod} from ${move.source} to ${move.target}: ${progress(move)}`,
      });
      change(arc.under, { d });
      change(arc.line, { d });
      const part = move.steps ? (move.done ?? 0) / move.steps : 0;
      change(arc.done, { d, "stroke-dasharray": `${Math.round(100 * part)} 100` });
      change(arc.head, { transform: heading(points, scale) });
      const said = worded || own || move.ended ? progress(move)
        : `${move.done ?? 0}/${move.steps ?? 0}`;
      this.#label(arc, shortened(said, LONGEST), middle, { scale, width, taken });
    }
  }

  #made(id) {
    const group = add(this.layer, "g", { class: "arc", role: "img", "data-move": id });
    const arc = {
      group,
      under: add(group, "path", { class: "under" }),
      line: add(group, "path", { class: "line" }),
      done: add(group, "path", { class: "done", pathLength: 100 }),
      head: add(group, "path", { class: "head", d: "M0 0L-9 4.5V-4.5Z" }),
      plate: add(group, "rect", { class: "plate" }),
      label: add(group, "text", { class: "step" }),
    };
    this.#arcs.set(id, arc);
    return arc;
  }

  /** Near the middle of its arc, below whatever label is there already. */
  #label(arc, text, [x, y], { scale, width, taken }) {
    const w = (text.length * LETTER + 10) / scale;
    const line = LINE / scale;
    const left = Math.max(2, Math.min(width - w - 2, x - w / 2));
    let top = y - line;
    const clash = () => taken.some((box) => (
      left < box.left + box.w && box.left < left + w && Math.abs(top - box.top) < line));
    while (clash()) top += line;
    taken.push({ left, w, top });
    change(arc.plate, {
      x: left.toFixed(1), y: top.toFixed(1), width: w.toFixed(1), height: (0.94 * line).toFixed(1),
    });
    change(arc.label, {
      x: (left + 5 / scale).toFixed(1), y: (top + 0.7 * line).toFixed(1), text,
    });
  }
}

/** From one point to the other, swinging upwards; its middle is where its label goes. */
function curve([ax, ay], [bx, by]) {
  const [cx, cy] = swung([ax, ay], [bx, by]);
  const at = (value) => value.toFixed(1);
  return {
    d: `M${at(ax)} ${at(ay)}Q${at(cx)} ${at(cy)} ${at(bx)} ${at(by)}`,
    middle: [(ax + 2 * cx + bx) / 4, (ay + 2 * cy + by) / 4],
  };
}

function swung([ax, ay], [bx, by]) {
  const [dx, dy] = [bx - ax, by - ay];
  const up = dx >= 0 ? 1 : -1;
  return [(ax + bx) / 2 + 2 * SWING * dy * up, (ay + by) / 2 - 2 * SWING * dx * up];
}

function heading([from, to], scale) {
  const [cx, cy] = swung(from, to);
  const angle = (Math.atan2(to[1] - cy, to[0] - cx) * 180) / Math.PI;
  const [x, y] = to.map((value) => value.toFixed(1));
  return `translate(${x},${y}) rotate(${angle.toFixed(1)}) scale(${(1 / scale).toFixed(3)})`;
}
