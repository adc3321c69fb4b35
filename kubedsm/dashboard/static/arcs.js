/** Arcs of migrations, each from the node of its pod to the target. */

import { html, useLayoutEffect, useState } from "./vendor/htm-preact.js";

/** Height of an arc, as a part of its length. */
const SWING = 0.32;
/** Seconds for which a finished migration keeps its arc: most take half a second. */
const STAYS = 2;

/** Return migrations in progress or just over, of the last proposal, and the chosen one. */
function arched(moves, chosen, at) {
  const proposed = [...moves.values()].filter(({ state }) => state === "proposed");
  const last = Math.max(0, ...proposed.map(({ decision }) => decision));
  return [...moves].filter(([id, { state, decision, began = 0, ended = 0 }]) => (
    state === "moving" || state === "planned" || (state === "proposed" && decision === last)
    || (began > 0 && ended > 0 && at - ended < STAYS)
    || (chosen?.kind === "move" && chosen.key === id)));
}

/** Describe the progress of a migration in a few words. */
export function progress({ state, step, done = 0, steps = 0 }) {
  if (state !== "moving") return state;
  return [steps ? `${done} of ${steps}` : "", step].filter(Boolean).join(": ");
}

/** `picture`: element in which nodes and pods are found by their data attributes. */
export function Arcs({ moves, picture, chosen, at, scale }) {
  const [places, setPlaces] = useState({});
  const shown = arched(moves, chosen, at);
  useLayoutEffect(() => {
    const found = Object.fromEntries(
      shown.map(([id, move]) => [id, ends(picture.current, id, move)]));
    if (JSON.stringify(found) !== JSON.stringify(places)) setPlaces(found);
  });
  return html`
    <svg class="arcs">
      <defs><marker id="arrow" viewBox="-9 -5 9 10" refX="0" refY="0" orient="auto"
        markerWidth="9" markerHeight="9"><path d="M0 0L-9 4.5V-4.5Z" /></marker></defs>
      ${shown.filter(([id]) => places[id]).map(([id, move]) => {
        const { d, middle: [x, y] } = curve(...places[id]);
        const { pod, source, target, state, done = 0, steps = 0 } = move;
        const own = chosen?.kind === "move" && chosen.key === id ? " chosen" : "";
        const part = steps ? Math.round((100 * done) / steps) : 0;
        return html`
          <g key=${id} class=${`arc ${state.replace(" ", "-")}${own}`} role="img" data-move=${id}
            aria-label=${`${pod} from ${source} to ${target}: ${progress(move)}`}>
            <path class="under" d=${d} />
            <path class="line" d=${d} marker-end="url(#arrow)" />
            <path class="done" d=${d} pathLength="100" stroke-dasharray=${`${part} 100`} />
            <text x=${x} y=${y}>${state === "moving" ? `${done} of ${steps}` : state}</text>
          </g>`;
      })}
    </svg>`;
}

/** Return begin and end of a migration's arc, relative to the picture; null if not drawn. */
function ends(picture, id, { pod, replacement, source, target }) {
  const frame = picture.getBoundingClientRect();
  const scale = frame.width / picture.offsetWidth || 1;
  const find = (kind, key) => key && picture.querySelector(`[data-${kind}="${CSS.escape(key)}"]`);
  const held = find("node", target)?.querySelector(`.pod[data-move="${CSS.escape(id)}"]`);
  const from = find("pod", pod) ?? find("node", source);
  const to = held ?? (find("pod", replacement) || find("node", target));
  if (!from || !to) return null;
  return [from, to].map((element) => {
    const { left, top, width, height } = element.getBoundingClientRect();
    return [(left + width / 2 - frame.left) / scale, (top + height / 2 - frame.top) / scale];
  });
}

/** Return the path of an arc that swings upwards, and its middle. */
function curve([ax, ay], [bx, by]) {
  const [dx, dy] = [bx - ax, by - ay];
  const up = dx >= 0 ? SWING : -SWING;
  const [cx, cy] = [(ax + bx) / 2 + dy * up, (ay + by) / 2 - dx * up];
  const text = [ax, ay, cx, cy, bx, by].map((value) => value.toFixed(1));
  return {
    d: `M${text[0]} ${text[1]}Q${text[2]} ${text[3]} ${text[4]} ${text[5]}`,
    middle: [(ax + 2 * cx + bx) / 4, (ay + 2 * cy + by) / 4],
  };
}
