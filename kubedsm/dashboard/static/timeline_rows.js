/** Rows of the timeline: migrations as spans, events as marks; and their hints. */

import { clock, lasting, ticks } from "./formats.js";
import { subject } from "./lists.js";
import { markPaths, marksNear, moveNear, MOVES_HEIGHT, spanPaths, spans } from "./tracks.js";
import { html, useMemo } from "./vendor/htm-preact.js";

const MARKS = { height: 14, Drawn: Marks };
const LANES = [
  { id: "moves", label: "Migrations", height: MOVES_HEIGHT, Drawn: Moves },
  { ...MARKS, id: "decisions", label: "Decisions" }, { ...MARKS, id: "events", label: "Events" },
];

/** Rows of all recordings, and the clock below; rendered after changes only. */
export function Lanes({ recordings, titles, x, width, live }) {
  return useMemo(() => html`
    ${recordings.map((recording, at) => html`
      ${recordings.length > 1 && html`<p class="title">${titles[at]}</p>`}
      ${LANES.filter(({ id }) => live || isUsed(recording, id)).map((lane) => html`
        <${Lane} key=${lane.id} ...${{ ...lane, recording, at, x, width }} />`)}`)}
    <svg class="clock" width=${width} height="16" aria-hidden="true">
      ${ticks(x, width).map((at) => html`
        <path class="grid" d="M${x(at)} 0v4" />
        <text x=${x(at)} y="14">${clock(at)}</text>`)}
    </svg>
  `, [width, x.from, x.to, ...recordings.flatMap(({ version, run }) => [version, run])]);
}

/** Return true if a lane of a recording has any entry. */
function isUsed({ history }, id) {
  return (id === "moves" ? history.moves.size : marksOf(history, id).length) > 0;
}

function marksOf({ marks }, id) {
  return marks.filter(({ lane }) => lane === id);
}

/** Return the lane at the pointer, its nearest entries, their moment, and the object to select. */
export function laneAt(track, event, recordings, x) {
  const px = event.clientX - track.getBoundingClientRect().left;
  const over = [...track.querySelectorAll("[data-lane]")]
    .find((lane) => event.clientY < lane.getBoundingClientRect().bottom);
  const { lane, recording = 0 } = over?.dataset ?? {};
  const { history } = recordings[recording];
  const found = { lane, history, px, top: over?.offsetTop ?? 0, moment: x.at(px) };
  if (lane === "moves") {
    const y = event.clientY - over.getBoundingClientRect().top;
    const move = moveNear(spans(history.moves.values(), x), px, y);
    return move ? { ...found, move, chosen: { kind: "move", key: move.id, recording: +recording } } : found;
  }
  const marks = marksNear(marksOf(history, lane), x, px);
  if (!marks.length) return found;
  const about = subject(marks[0]);
  const chosen = about && { kind: about.kind, key: about.name, recording: +recording };
  return { ...found, marks, chosen, moment: marks[0].seen };
}

function Lane({ id, label, height, Drawn, recording: { history }, at, x, width }) {
  return html`
    <div class="lane" data-lane=${id} data-recording=${at}>
      <span class="label">${label}</span>
      <svg width=${width} height=${height} aria-hidden="true">
        ${history.gaps.filter((gap) => gap.to > x.from && gap.from < x.to).map((gap) => html`
          <rect class="unknown" x=${x(gap.from)} width=${Math.max(1, x(gap.to) - x(gap.from))}
            height=${height} />`)}
        <${Drawn} ...${{ history, id, x, height }} />
      </svg>
    </div>`;
}

function Moves({ history, x }) {
  return Object.entries(spanPaths(spans(history.moves.values(), x))).map(([state, d]) => html`
    <path class="move" data-state=${state} d=${d} />`);
}

function Marks({ history, id, x, height }) {
  return Object.entries(markPaths(marksOf(history, id), x, height)).map(([kind, d]) => html`
    <path class=${kind} d=${d} />`);
}

/** Most lines of a hint. */
const MOST = 6;

/** Return the sentences of the news at a moment of a recording. */
export function toldAt({ history }, moment) {
  return history.marks.filter(({ seen }) => Math.abs(seen - moment) < 0.001)
    .map(({ text }) => text);
}

/** Hint next to the pointer. */
export function Told({ pointed, width }) {
  const { px, top, moment } = pointed;
  const side = px > width / 2 ? { right: `${width - px + 8}px` } : { left: `${px + 8}px` };
  const all = about(pointed).filter(Boolean);
  const more = all.length - MOST;
  return html`
    <div class="told" style=${{ ...side, bottom: `calc(100% - ${top - 4}px)` }}>
      <p class="when">${clock(moment)}</p>
      ${all.slice(0, MOST).map((text) => html`<p>${text}</p>`)}
      ${more > 0 && html`<p>and ${more} more</p>`}
    </div>`;
}

function about({ history, moment, marks, move }) {
  const gap = history.gaps.find(({ from, to }) => moment > from && moment < to);
  if (gap) return [`No data for ${lasting(gap.to - gap.from)}: this page was not connected.`];
  if (marks) return marks.map(({ at, text }) => `${clock(at)} ${text}`);
  if (move) return aboutMove(move);
  return [];
}

function aboutMove({ row, begins, ends }) {
  const { pod, source, target, state, reason, step, purpose, helped } = row;
  const long = ends === null ? "" : `, after ${lasting(ends - begins)}`;
  return [
    `${pod}: ${source || "no node"} to ${target}`, `${state}${long}${reason ? `: ${reason}` : ""}`,
    step, purpose, helped,
  ];
}
