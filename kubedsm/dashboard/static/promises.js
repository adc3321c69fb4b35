/** Workloads: which part of each is at the edge, now and over time, against what is promised. */

import { Items, Name, Part } from "./lists.js";
import { HATCHES, looks } from "./palette.js";
import { Trend } from "./trend.js";
import { html, useMemo } from "./vendor/htm-preact.js";
import { canImagine } from "./what_if.js";
import { percent } from "./words.js";

const NONE = "No pod asks for schedulerName kubedsm yet. Those that do are placed, and moved to the"
  + " edge as promised.";

export function Workloads({ tables, film, at, state, of, set, ask }) {
  const [keys, items] = useMemo(() => {
    const sorted = [...tables.workloads].sort(([one], [other]) => (one < other ? -1 : 1));
    return [sorted.map(([key]) => key), sorted.sort((one, other) => lacks(other) - lacks(one))];
  }, [tables.workloads]);
  const short = items.filter(([, row]) => row.missing).length;
  return html`
    <${Part} of=${of} name="workloads" title="At the edge" note=${items.length > 0
      && (short ? `${short} of ${items.length} short of their promise`
        : items.every(([, { promise }]) => promise !== undefined) ? "each as promised" : "")}
      action=${items.length > 0 && canImagine(ask, tables) && html`
        <${Name} kind="what-if" name="" ...${{ state, set }}>What if?<//>`}>
      <${Items} items=${items} first=${12} none=${NONE}>${([name, row]) => html`
        <${Workload} key=${name} look=${looks(name, keys)} ...${{ name, row, film, at, state, set }}
          />`}<//>
    <//>`;
}

/** Which part of it would have to be at the edge, and is not. */
function lacks([, { missing, total }]) {
  return missing ? missing / total : 0;
}

function Workload({ name, row, look, film, at, state, set }) {
  return html`
    <li>
      <${Swatch} look=${look} />
      <span class="line">
        <${Name} kind="workload" ...${{ name, state, set }} />
        <span class="figures">${row.edge} of ${row.total}${promised(row)}${waits(row)}</span>
      </span>
      <${Share} ...${{ row, look }} />
      <${Trend} ...${{ name, row, film, at }} colour=${look.colour} />
      ${row.edgeSlower && html`<span class="told warn">
        Answers more slowly at the edge than in the cloud${answers(row)}.</span>`}
    </li>`;
}

/** The colour of a workload, with its pattern. */
function Swatch({ look: { colour, pattern } }) {
  return html`
    <svg class="swatch" aria-hidden="true" viewBox="0 0 12 12">
      <rect width="12" height="12" fill=${colour} />
      ${pattern > 0 && [0, 6].map((x) => [0, 6].map((y) => html`
        <path class="hatch" transform=${`translate(${x} ${y})`} d=${HATCHES[pattern]} />`))}
    </svg>`;
}

/** The part that is at the edge as a bar, with a mark at what is promised. */
function Share({ row: { edge, total, promise }, look }) {
  const part = edge / (total || 1);
  return html`
    <svg class="share" role="img"
      aria-label=${`${percent(part)} at the edge${
        promise === undefined ? "" : `, ${percent(promise)} promised`}`}>
      <rect class="all" x="0" y="2" width="100%" height="10" />
      <rect x="0" y="2" width=${`${100 * part}%`} height="10" fill=${look.colour} />
      ${promise > 0 && html`<line class="mark" y1="-1" y2="15"
        x1=${`${100 * promise}%`} x2=${`${100 * promise}%`} />`}
    </svg>`;
}

function promised({ promise, missing }) {
  if (promise === undefined) return "";
  if (!promise) return html`, <span class="soft">none promised</span>`;
  if (!missing) return html`, <span class="soft">promised ${percent(promise)}</span>`;
  return html`, <b class="bad">${missing} short of ${percent(promise)}</b>`;
}

function waits({ waiting = 0 }) {
  return waiting ? `; ${waiting} ${waiting === 1 ? "waits" : "wait"}` : "";
}

function answers({ edgeAnswers: edge, cloudAnswers: cloud }) {
  return edge && cloud ? `: ${Math.round(edge)} ms, ${Math.round(cloud)} ms` : "";
}
