/** Workloads with their promises, pods that wait, and moves. */

import { html } from "./vendor/htm-preact.js";

export function Workloads({ tables }) {
  return html`
    <section aria-labelledby="workloads">
      <h2 id="workloads">At the edge</h2>
      <ul>${[...tables.workloads].map(([name, row]) => html`
        <li key=${name}>${name}: ${row.edge} of ${row.total}, promised ${row.promise}</li>`)}</ul>
    </section>`;
}

export function Waiting({ tables, set }) {
  const waiting = [...tables.pods].filter(([, row]) => row.state === "waiting");
  return html`
    <section aria-labelledby="waiting">
      <h2 id="waiting">Waiting for a node</h2>
      <ul>${waiting.map(([name, row]) => html`
        <li key=${name}><button onClick=${() => set({ chosen: { kind: "pod", key: name } })}>
          ${name}</button> ${row.message}</li>`)}</ul>
    </section>`;
}

export function Moves({ tables, set }) {
  return html`
    <section aria-labelledby="moves">
      <h2 id="moves">Moves</h2>
      <ul>${[...tables.moves].map(([id, row]) => html`
        <li key=${id}><button onClick=${() => set({ chosen: { kind: "move", key: id } })}>
          ${row.pod}</button> ${row.source} to ${row.target}: ${row.state} ${row.step}</li>`)}</ul>
    </section>`;
}
