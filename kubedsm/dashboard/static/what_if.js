/** "What if?": other QoS factors, more replicas, a lost site; beside them what would be done. */

import { Answered, Table, useAnswer } from "./answer.js";
import { html, useState } from "./vendor/htm-preact.js";
import { percent } from "./formats.js";

/** Seconds without another change, after which it is asked. */
const PAUSE = 0.4;
/** As many as can be added to a workload. */
const MOST = 100;
const HEADINGS = ["workload", "QoS factor", "added pods"];

/** Whether there is a scheduler to ask: none decides where a cluster is only watched. */
export function canImagine(ask, tables) {
  return ask && tables.status.get("now")?.role !== "watching";
}

/** What is changed is kept here, and nowhere else. */
export function WhatIf({ tables, ask, go }) {
  const [changes, setChanges] = useState({});
  const [lost, setLost] = useState("");
  const path = asked(changes, lost);
  const sites = [...new Set([...tables.nodes.values()].map(({ site }) => site).filter(Boolean))];
  const { answer, error, asking } = useAnswer(ask, path, "what-if", null, PAUSE);
  const change = (key, more) => setChanges({ ...changes, [key]: { ...changes[key], ...more } });
  return html`
    <p>Nothing is changed: the result is computed on a copy.</p>
    <div class="sides">
      <div>
        <${Table} title="Assumed changes" headings=${HEADINGS}>
          ${[...tables.workloads].sort().map(([name, { target }]) => html`
            <${Changed} key=${name} ...${{ name, change }} qos=${target} ...${changes[name]} />`)}
        <//>
        ${sites.length > 0 && html`
          <label>Lost site <select value=${lost} onChange=${({ target }) => setLost(target.value)}>
            <option value="">none</option>
            ${sites.sort().map((site) => html`<option key=${site} value=${site}>${site}</option>`)}
          </select></label>`}
        <button disabled=${path === asked({}, "")}
          onClick=${() => (setChanges({}), setLost(""))}>Reset</button>
      </div>
      <${Answered} ...${{ answer, error, go }} busy=${asking} />
    </div>`;
}

function Changed({ name, qos, more = 0, change }) {
  return html`
    <tr>
      <th scope="row">${name}</th>
      <td><input type="range" min="0" max="1" step="0.05" value=${qos}
        aria-label=${`QoS factor of ${name}`}
        onInput=${({ target }) => change(name, { qos: Number(target.value) })} />
        <output>${percent(qos)}</output></td>
      <td><input type="number" min="0" max=${MOST} value=${more}
        aria-label=${`pods added to ${name}`}
        onInput=${({ target }) => change(name, { more: whole(target.value) })} /></td>
    </tr>`;
}

const whole = (text) => Math.max(0, Math.min(MOST, Math.trunc(Number(text)) || 0));

/** The question: of each workload only what is changed. */
function asked(changes, lost) {
  const query = new URLSearchParams();
  for (const [name, { qos, more }] of Object.entries(changes)) {
    if (qos !== undefined) query.append("qos", `${name}:${qos}`);
    if (more) query.append("replicas", `${name}:+${more}`);
  }
  if (lost) query.append("lost", lost);
  return `what-if?${query}`;
}
