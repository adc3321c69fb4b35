/** The page as a whole: what is chosen, and the views of the moment that is shown. */

import { Cluster } from "./cluster.js";
import { tablesAt } from "./film.js";
import { Header } from "./header.js";
import { Moves, Waiting, Workloads } from "./lists.js";
import { Timeline } from "./timeline.js";
import { Why } from "./why.js";
import { html, render } from "./vendor/htm-preact.js";

/**
 * Show films, one beside the other. `ask` asks the server; without one nothing can be asked.
 * Returned: `changed`, to be called when a film has more; `set`, to change what is chosen.
 */
export function show({ films, ask = null, titles = [] }) {
  let state = {
    /** "connected", "away", "refused"; "recorded" without a server */
    connection: ask ? "connected" : "recorded",
    /** the moment that is shown, in seconds since the epoch; null: the last one */
    moment: null,
    /** what is asked about: { kind: "pod" | "node" | "move" | "decision", key }, or null */
    chosen: null,
  };
  let asked = false;

  function draw() {
    asked = false;
    render(html`<${Page} ...${{ films, titles, ask, state, set }} />`, document.body);
  }

  function changed() {
    if (asked) return;
    asked = true;
    requestAnimationFrame(draw);
  }

  function set(more) {
    state = { ...state, ...more };
    changed();
  }

  draw();
  return { changed, set };
}

function Page({ films, titles, ask, state, set }) {
  const shown = tablesAt(films, state.moment);
  const [first] = shown;
  return html`
    <${Header} tables=${first} state=${state} />
    <main>
      ${shown.map((tables, at) => html`
        <${Cluster} tables=${tables} title=${titles[at]} state=${state} set=${set} />`)}
      <${Workloads} tables=${first} film=${films[0]} set=${set} />
      <${Waiting} tables=${first} set=${set} />
      <${Moves} tables=${first} set=${set} />
      <${Why} tables=${first} state=${state} set=${set} ask=${ask} />
    </main>
    <${Timeline} films=${films} state=${state} set=${set} />`;
}
