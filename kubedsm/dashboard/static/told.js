/** What is told about a place on the timeline. */

import { clock, lasting } from "./times.js";
import { sharesAt } from "./tracks.js";
import { percent } from "./words.js";
import { html } from "./vendor/htm-preact.js";

/** So much of each is told. */
const MOST = 6;

/** What became known at a moment of a film, in sentences. */
export function toldAt({ history }, moment) {
  return history.marks.filter(({ seen }) => Math.abs(seen - moment) < 0.001)
    .map(({ text }) => text);
}

/** A note beside the pointer. */
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

function about({ lane, history, moment, marks, move }) {
  const gap = history.gaps.find(({ from, to }) => moment > from && moment < to);
  if (gap) return [`Nothing is known of ${lasting(gap.to - gap.from)}: this page was not told.`];
  if (marks) return marks.map(({ at, text }) => `${clock(at)} ${text}`);
  if (move) return aboutMove(move);
  if (lane !== "shares") return [];
  return sharesAt(history.shares, moment).map(({ workload, edge, total, promise }) => (
    `${workload}: ${edge} of ${total}, promised ${percent(promise)}`));
}

function aboutMove({ row, begins, ends }) {
  const { pod, source, target, state, reason, step, purpose, helped } = row;
  const long = ends === null ? "" : `, after ${lasting(ends - begins)}`;
  return [
    `${pod}: ${source || "no node"} to ${target}`, `${state}${long}${reason ? `: ${reason}` : ""}`,
    step, purpose, helped,
  ];
}
