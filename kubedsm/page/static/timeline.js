/** What happened when, and the moment that is shown. */

import { html } from "./vendor/htm-preact.js";

export function Timeline({ films: [film], state, set }) {
  const moment = state.moment ?? film.ends;
  return html`
    <footer>
      <label>Moment <input type="range" step="any" min=${film.begins} max=${film.ends}
        value=${moment} onInput=${(event) => set({ moment: Number(event.target.value) })} /></label>
      <button onClick=${() => set({ moment: null })}>Now</button>
    </footer>`;
}
