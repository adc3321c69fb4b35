/** What is going on now, in words. */

import { html } from "./vendor/htm-preact.js";

export function Header({ tables, state }) {
  const status = tables.status.get("now");
  return html`
    <header>
      <h1>KubeDSM</h1>
      <p class="headline" role="status">${status?.headline ?? "Waiting for the scheduler."}</p>
      ${state.connection === "away" && html`<p class="trouble">The scheduler does not answer.</p>`}
    </header>`;
}
