/** Workloads: edge share now and over time, against the QoS target. */

import { Chart, ChartLegend } from "./chart.js";
import { Items, Name, Part } from "./lists.js";
import { colourOf, ranked } from "./palette.js";
import { html, useMemo } from "./vendor/htm-preact.js";
import { canImagine } from "./what_if.js";
import { percent } from "./formats.js";

const NONE = "No pod has schedulerName kubedsm yet.";
/** Workloads that are shown at first. */
const FIRST = 10;

export function Workloads({ tables, recording, at, state, of, set, ask }) {
  const [keys, items] = useMemo(() => {
    const byName = [...tables.workloads].sort(([one], [other]) => (one < other ? -1 : 1));
    return [ranked(tables.workloads), byName.sort((one, other) => lacks(other) - lacks(one))];
  }, [tables.workloads]);
  const short = items.filter(([, row]) => row.missing).length;
  return html`
    <${Part} of=${of} name="workloads" title="At the edge" note=${items.length > 0
      && (short ? `${short} of ${items.length} below their target`
        : items.every(([, { target }]) => target !== undefined) ? "every target is met" : "")}
      action=${items.length > 0 && canImagine(ask, tables) && html`
        <${Name} kind="what-if" name="" ...${{ state, set }}>What if?<//>`}>
      ${items.length > 0 && html`
        <${ChartLegend} targets=${items.some(([, { target }]) => target !== undefined)} />`}
      <${Items} items=${items} first=${FIRST} none=${NONE}>${([name, row], index, shown) => html`
        <${Workload} key=${name} colour=${colourOf(name, keys)} times=${index === shown.length - 1}
          ...${{ name, row, recording, at, state, set }} />`}<//>
    <//>`;
}

/** Return the part of a workload that is missing at the edge. */
function lacks([, { missing, total }]) {
  return missing ? missing / total : 0;
}

function Workload({ name, row, colour, times, recording, at, state, set }) {
  return html`
    <li>
      <i class="swatch pod" style=${{ "--colour": colour }} />
      <span class="line">
        <${Name} kind="workload" ...${{ name, state, set }} />
        <span class="figures">${row.edge} of ${row.total}${targetText(row)}${waits(row)}</span>
      </span>
      <${Chart} ...${{ name, row, recording, at, colour, times }} />
      ${row.edgeSlower && html`<span class="told warn">
        Its response time is longer at the edge than in the cloud${answers(row)}.</span>`}
    </li>`;
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
