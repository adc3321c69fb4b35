/** Two moments compared, in words. */

import { differences } from "./differences.js";
import { tablesAt } from "./film.js";
import { clock, lasting } from "./times.js";
import { html, useMemo } from "./vendor/htm-preact.js";

/** So many of each are told. */
const MOST = 6;

/** What is different from the earlier to the later one of the moments, of each film. */
export function Comparison({ films, titles, state, moment, set }) {
  if (state.compared == null) return null;
  const [from, to] = [state.compared, moment].sort((one, other) => one - other);
  if (to - from < 0.01) {
    return html`<p class="comparison">Go to another moment: what is different is told here.</p>`;
  }
  const [before, after] = [tablesAt(films, from), tablesAt(films, to)];
  return html`
    <section class="comparison" aria-labelledby="comparison">
      <h2 id="comparison">From ${clock(from)} to ${clock(to)}, ${lasting(to - from)}</h2>
      ${films.map((film, i) => html`
        ${films.length > 1 && html`<h3>${titles[i]}</h3>`}
        <${Differences} before=${before[i]} after=${after[i]}
          choose=${(key) => set({ chosen: { kind: "pod", key, film: i } })} />`)}
    </section>`;
}

function Differences({ before, after, choose }) {
  const found = useMemo(() => differences(before, after), [before, after]);
  const { moved, came, went, shares, nodes } = found;
  if (!moved.size && !came.size && !went.size && !shares.length && !nodes.length) {
    return html`<p>Nothing is different.</p>`;
  }
  const pod = (key) => html`
    <button type="button" class="name" onClick=${() => choose(key)}>${key}</button>`;
  return html`
    <div class="differences">
      <${List} name="Moved" all=${[...moved]} tell=${([key, { from, to, replaced }]) => html`
        ${pod(key)} ${from || "no node"} to ${to || "no node"}${
          replaced && `, in place of ${replaced}`}`} />
      <${List} name="Came" all=${[...came]} tell=${([key, { to }]) => html`
        ${pod(key)} ${to ? `on ${to}` : "without a node"}`} />
      <${List} name="Went" all=${[...went]} tell=${([key, { from }]) => html`
        ${pod(key)} ${from && `from ${from}`}`} />
      <${List} name="At the edge" all=${shares} tell=${(one) => html`
        ${one.workload} ${told(one.before)}, then ${told(one.after)}`} />
      <${List} name="Nodes" all=${nodes} tell=${({ node, was, is }) => html`
        ${node} ${was}, then ${is}`} />
    </div>`;
}

function List({ name, all, tell }) {
  if (!all.length) return null;
  return html`
    <div>
      <h3>${name} <span>${all.length}</span></h3>
      <ul>${all.slice(0, MOST).map((one) => html`<li>${tell(one)}</li>`)}</ul>
      ${all.length > MOST && html`<p>and ${all.length - MOST} more</p>`}
    </div>`;
}

function told({ edge, total }) {
  return total ? `${edge} of ${total}` : "no pods";
}
