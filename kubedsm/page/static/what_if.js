/** "What if?": other QoS factors, and more replicas, on sliders; beside them what would be done. */

import { Answer, useAnswer } from "./answer.js";
import { html, useState } from "./vendor/htm-preact.js";

/** Seconds without another change, after which it is asked. */
const PAUSE = 0.4;
/** As many as can be added to a workload. */
const MOST = 100;

/** Whether there is a scheduler to ask: none decides where a cluster is only watched. */
export function canImagine(ask, tables) {
  return Boolean(ask) && tables.status.get("now")?.role !== "watching";
}

/** What is changed is kept here, and nowhere else. */
export function WhatIf({ tables, ask, go }) {
  const [changes, setChanges] = useState({});
  const path = asked(changes);
  const { answer, error, asking } = useAnswer(ask, path, "what-if", null, PAUSE);
  const change = (key, more) => setChanges({ ...changes, [key]: { ...changes[key], ...more } });
  return html`
    <p>Nothing is changed by this: what would be done is worked out on a copy.</p>
    <div class="sides">
      <div class="wide" tabindex="0" role="group" aria-label="What is changed">
        <table>
          <thead><tr>
            <th scope="col">workload</th><th scope="col">QoS factor</th>
            <th scope="col">added pods</th>
          </tr></thead>
          <tbody>${[...tables.workloads].sort().map(([key, row]) => html`
            <${Changed} key=${key} name=${key} row=${row} changed=${changes[key] ?? {}}
              change=${change} />`)}
          </tbody>
        </table>
        <button disabled=${path === asked({})} onClick=${() => setChanges({})}>As it is</button>
      </div>
      <div aria-live="polite" aria-busy=${Boolean(asking || !(answer || error))}>
        ${error ? html`<p class="soft">${error}</p>`
          : answer && html`<${Answer} answer=${answer} go=${go} />`}
      </div>
    </div>`;
}

function Changed({ name, row, changed: { qos = row.promise ?? 0, more = 0 }, change }) {
  return html`
    <tr>
      <th scope="row">${name}</th>
      <td><input type="range" min="0" max="1" step="0.05" value=${qos}
        aria-label=${`QoS factor of ${name}`}
        onInput=${({ target }) => change(name, { qos: Number(target.value) })} />
        <output>${Math.round(100 * qos)} %</output></td>
      <td><input type="number" min="0" max=${MOST} value=${more}
        aria-label=${`pods added to ${name}`}
        onInput=${({ target }) => change(name, { more: whole(target.value) })} /></td>
    </tr>`;
}

const whole = (text) => Math.max(0, Math.min(MOST, Math.trunc(Number(text)) || 0));

/** The question: of each workload only what is changed. */
function asked(changes) {
  const query = new URLSearchParams();
  for (const [name, { qos, more }] of Object.entries(changes)) {
    if (qos !== undefined) query.append("qos", `${name}:${qos}`);
    if (more) query.append("replicas", `${name}:+${more}`);
  }
  return `what-if?${query}`;
}
