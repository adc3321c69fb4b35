/** Workloads: edge share now and over time, against the QoS target. */

import { Items, Name, Part } from "./lists.js";
import { looks } from "./palette.js";
import { html, useMemo } from "./vendor/htm-preact.js";
import { canImagine } from "./what_if.js";
import { percent } from "./formats.js";

const NONE = "No pod has schedulerName kubedsm yet.";

export function Workloads({ tables, recording, at, state, of, set, ask }) {
  const [keys, items] = useMemo(() => {
    const sorted = [...tables.workloads].sort(([one], [other]) => (one < other ? -1 : 1));
    return [sorted.map(([key]) => key), sorted.sort((one, other) => lacks(other) - lacks(one))];
  }, [tables.workloads]);
  const short = items.filter(([, row]) => row.missing).length;
  return html`
    <${Part} of=${of} name="workloads" title="At the edge" note=${items.length > 0
      && (short ? `${short} of ${items.length} below their target`
        : items.every(([, { target }]) => target !== undefined) ? "every target is met" : "")}
      action=${items.length > 0 && canImagine(ask, tables) && html`
        <${Name} kind="what-if" name="" ...${{ state, set }}>What if?<//>`}>
      <${Items} items=${items} first=${12} none=${NONE}>${([name, row]) => html`
        <${Workload} key=${name} look=${looks(name, keys)} ...${{ name, row, recording, at, state, set }}
          />`}<//>
    <//>`;
}

/** Which part of it would have to be at the edge, and is not. */
function lacks([, { missing, total }]) {
  return missing ? missing / total : 0;
}

function Workload({ name, row, look, recording, at, state, set }) {
  return html`
    <li>
      <i class=${`swatch pod hatch${look.pattern}`} style=${{ "--colour": look.colour }} />
      <span class="line">
        <${Name} kind="workload" ...${{ name, state, set }} />
        <span class="figures">${row.edge} of ${row.total}${targetText(row)}${waits(row)}</span>
      </span>
      <${Share} ...${{ row, look }} />
      <${Trend} ...${{ name, row, recording, at }} colour=${look.colour} />
      ${row.edgeSlower && html`<span class="told warn">
        Its response time is longer at the edge than in the cloud${answers(row)}.</span>`}
    </li>`;
}

/** The part that is at the edge as a bar, with a mark at its target. */
function Share({ row: { edge, total, target }, look }) {
  const part = edge / (total || 1);
  return html`
    <svg class="share" role="img"
      aria-label=${`${percent(part)} at the edge${
        target === undefined ? "" : `, target ${percent(target)}`}`}>
      <rect class="all" x="0" y="2" width="100%" height="10" />
      <rect x="0" y="2" width=${`${100 * part}%`} height="10" fill=${look.colour} />
      ${target > 0 && html`<line class="mark" y1="-1" y2="15"
        x1=${`${100 * target}%`} x2=${`${100 * target}%`} />`}
    </svg>`;
}

function targetText({ target, missing, surplus = 0 }) {
  if (target === undefined) return "";
  const text = target ? `target ${percent(target)}` : "no target";
  const stays = surplus ? ": surplus stays until others need the capacity" : "";
  if (!missing) return html`, <span class="soft">${text}${stays}</span>`;
  return html`, <b class="bad">${missing} missing, ${text}</b>`;
}

function waits({ waiting = 0 }) {
  return waiting ? `; ${waiting} ${waiting === 1 ? "waits" : "wait"}` : "";
}

function answers({ edgeAnswers: edge, cloudAnswers: cloud }) {
  return edge && cloud ? `: ${Math.round(edge)} ms, ${Math.round(cloud)} ms` : "";
}

const [WIDTH, HEIGHT] = [120, 30];

/** Until `at`, as the recording's history has it. */
export function Trend({ name, row, recording: { begins, history }, at, colour }) {
  const there = (history.shares.get(name) ?? []).filter((point) => point.at <= at);
  const x = (moment) => (WIDTH * Math.max(0, moment - begins)) / Math.max(1, at - begins);
  const y = (part) => 2 + (HEIGHT - 4) * (1 - part);
  const line = (value) => there.map((point, index) => {
    const to = there[index + 1]?.at ?? at;
    const height = y(value(point)).toFixed(1);
    return `${index ? "L" : "M"}${x(point.at).toFixed(1)} ${height}H${x(to).toFixed(1)}`;
  }).join("");
  return html`
    <svg class="trend" viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img"
      aria-label=${`over time; now ${row.edge} of ${row.total} at the edge`}>
      <path class="target" d=${line(({ target }) => target)} />
      <path stroke=${colour} d=${line(({ edge, total }) => edge / (total || 1))} />
    </svg>`;
}
