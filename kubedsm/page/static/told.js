/** What is told about a place on the timeline. */

import { clock, lasting } from "./times.js";
import { sharesAt } from "./tracks.js";
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
  return html`
    <div class="told" style=${{ ...side, bottom: `calc(100% - ${top - 4}px)` }}>
      <p class="when">${clock(moment)}</p>
      ${about(pointed)}
    </div>`;
}

function about({ lane, film, own, marks, move }) {
  const gap = film.history.gaps.find(({ from, to }) => own > from && own < to);
  if (gap) {
    return html`<p>Nothing is known of ${lasting(gap.to - gap.from)}: this page was not told.</p>`;
  }
  if (marks) return some(marks, ({ at, text }) => html`<p>${clock(at)} ${text}</p>`);
  if (move) return aboutMove(move);
  if (lane !== "shares") return null;
  return some(sharesAt(film.history.shares, own), ({ workload, edge, total, promise }) => html`
    <p>${workload}: ${edge} of ${total}, promised ${Math.round(100 * promise)} %</p>`);
}

function aboutMove({ row, begins, ends }) {
  const long = ends === null ? "" : `, after ${lasting(ends - begins)}`;
  return html`
    <p>${row.pod}: ${row.source || "no node"} to ${row.target}</p>
    <p>${row.state}${long}${row.reason && `: ${row.reason}`}</p>
    ${row.step && html`<p>${row.step}</p>`}
    ${row.purpose && html`<p>${row.purpose}</p>`}
    ${row.helped && html`<p>${row.helped}</p>`}`;
}

function some(all, tell) {
  return html`${all.slice(0, MOST).map(tell)}
    ${all.length > MOST && html`<p>and ${all.length - MOST} more</p>`}`;
}
