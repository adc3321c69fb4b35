/** The nodes by tier and site, each with what it holds, and the moves between them. */

import { html } from "./vendor/htm-preact.js";

export function Cluster({ tables, title, set }) {
  return html`
    <section class="cluster" aria-labelledby="cluster">
      <h2 id="cluster">${title ?? "Nodes"}</h2>
      <ul>${[...tables.nodes].map(([name, row]) => html`
        <li key=${name}><button onClick=${() => set({ chosen: { kind: "node", key: name } })}>
          ${name}</button> ${row.tier}</li>`)}</ul>
    </section>`;
}
