/** The lanes of the timeline: shares as lines, moves as spans, what happened as marks. */

import { looks } from "./palette.js";
import { clock, ticks } from "./times.js";
import {
  MOVES_HEIGHT, markPaths, marksNear, moveNear, scale, shareLine, spanPaths, spans,
} from "./tracks.js";
import { html, useMemo } from "./vendor/htm-preact.js";

const LANES = [
  { id: "shares", label: "At the edge", height: 64 },
  { id: "moves", label: "Moves", height: MOVES_HEIGHT },
  { id: "decisions", label: "Decisions", height: 14 },
  { id: "events", label: "Events", height: 14 },
];
/** More lines than so many are drawn softly. */
const MANY = 12;

/** All lanes of all films, and the clock below; drawn anew only when something is different. */
export function Lanes({ films, titles, x, width, state, live }) {
  const lit = workloadOf(films[0], state.chosen);
  return useMemo(() => html`
    ${films.map((film, i) => html`
      ${films.length > 1 && html`<p class="title">${titles[i]}</p>`}
      ${LANES.filter(({ id }) => live || isUsed(film, id)).map((lane) => html`
        <${Lane} key=${lane.id} ...${{ ...lane, film, at: i, width, lit }}
          x=${beside(x, films, i, width)} />`)}`)}
    <${Clock} ...${{ x, width }} />
  `, [width, lit, x.from, x.to, ...films.flatMap((film) => [film.version, film.run])]);
}

/** Whether a lane of a recording has anything in it. */
function isUsed({ history: { moves, marks } }, id) {
  return id === "shares" || (id === "moves" ? moves.size > 0 : marks.some((m) => m.lane === id));
}

/** What is at a pointer: the lane, what is drawn there, its moment, and what it chooses, if so. */
export function laneAt(track, event, films, x) {
  const { left, top } = track.getBoundingClientRect();
  const px = event.clientX - left;
  const lanes = [...track.querySelectorAll("[data-lane]")];
  const over = lanes.find((lane) => event.clientY < lane.getBoundingClientRect().bottom);
  const at = Number(over?.dataset.film ?? 0);
  const own = beside(x, films, at, track.clientWidth);
  const moment = x.at(px);
  const found = {
    lane: over?.dataset.lane, film: films[at], px, top: over?.offsetTop ?? 0,
    moment, own: own.at(px),
  };
  const { history } = films[at];
  if (found.lane === "moves") {
    const y = event.clientY - over.getBoundingClientRect().top;
    const move = moveNear(spans(history.moves.values(), own), px, y);
    return move ? { ...found, move, chosen: { kind: "move", key: move.id, film: at } } : found;
  }
  const marks = marksNear(history.marks.filter(({ lane }) => lane === found.lane), own, px);
  if (!marks.length) return found;
  const chosen = subject(marks[0]);
  return {
    ...found, marks, chosen: chosen && { ...chosen, film: at },
    moment: marks[0].seen + moment - found.own,
  };
}

/** What a piece of news is about; null: nothing that can be chosen. */
function subject({ decision, move, workload, pod, node }) {
  if (move) return { kind: "move", key: move };
  if (decision) return { kind: "decision", key: String(decision) };
  if (pod) return { kind: "pod", key: pod };
  if (node) return { kind: "node", key: node };
  if (workload) return { kind: "workload", key: workload };
  return null;
}

/** The scale of a film beside the first one: as long after its begin. */
function beside(x, films, at, width) {
  const later = films[at].begins - films[0].begins;
  return scale({ from: x.from + later, to: x.to + later }, width, films[at].ends);
}

function Lane({ id, label, height, film: { history }, at, x, width, lit }) {
  const drawn = id === "shares" ? Shares({ history, x, height, width, lit })
    : id === "moves" ? Moves({ history, x })
      : Marks({ marks: history.marks.filter(({ lane }) => lane === id), x, height });
  return html`
    <div class="lane ${id}" data-lane=${id} data-film=${at}>
      <span class="label">${label}</span>
      <svg width=${width} height=${height} aria-hidden="true">
        ${history.gaps.filter((gap) => gap.to > x.from && gap.from < x.to).map((gap) => html`
          <rect class="unknown" x=${x(gap.from)} width=${Math.max(1, x(gap.to) - x(gap.from))}
            height=${height} />`)}
        ${drawn}
      </svg>
    </div>`;
}

function Shares({ history: { shares, gaps }, x, height, width, lit }) {
  const all = [...shares.keys()].sort();
  const line = (workload, i) => html`
    <path class=${lit === workload ? "share lit" : "share"}
      d=${shareLine(shares.get(workload), gaps, x, height, i)}
      style=${{ stroke: looks(workload, all).colour }} />`;
  const promised = lit && shares.get(lit)?.map((point) => (
    { ...point, edge: point.promise, total: point.total && 1 }));
  return html`
    <path class="grid" d="M0 .5h${width}M0 ${height - 0.5}h${width}" />
    <g class=${lit ? "others" : all.length > MANY ? "many" : ""}>${all.map(line)}</g>
    ${promised && html`<path class="promise" style=${{ stroke: looks(lit, all).colour }}
      d=${shareLine(promised, gaps, x, height, all.indexOf(lit))} />`}`;
}

function Moves({ history: { moves }, x }) {
  const found = spans(moves.values(), x);
  return html`
    ${Object.entries(spanPaths(found)).map(([state, d]) => html`
      <path class="move" data-state=${state} d=${d} />`)}`;
}

function Marks({ marks, x, height }) {
  return Object.entries(markPaths(marks, x, height)).map(([kind, d]) => html`
    <path class="mark ${kind}" d=${d} />`);
}

function Clock({ x, width }) {
  return html`
    <svg class="clock" width=${width} height="16" aria-hidden="true">
      ${ticks(x, width).map((at) => html`
        <path class="grid" d="M${x(at)} 0v4" />
        <text x=${x(at)} y="14">${clock(at)}</text>`)}
    </svg>`;
}

function workloadOf(film, chosen) {
  if (chosen?.kind === "workload") return chosen.key;
  if (chosen?.kind === "pod") return film.last.pods.get(chosen.key)?.workload ?? null;
  return null;
}
