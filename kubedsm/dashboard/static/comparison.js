/** Two moments compared, in words. */

import { differences } from "./differences.js";
import { tablesAt } from "./film.js";
import { Items, Name } from "./lists.js";
import { clock, lasting } from "./times.js";
import { html, useMemo } from "./vendor/htm-preact.js";

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
      ${films.map((_, film) => html`
        ${films.length > 1 && html`<h3>${titles[film]}</h3>`}
        <${Differences} before=${before[film]} after=${after[film]} state=${state}
          set=${({ chosen }) => set({ chosen: { ...chosen, film } })} />`)}
    </section>`;
}

function Differences({ before, after, state, set }) {
  const found = useMemo(() => differences(before, after), [before, after]);
  const { moved, came, went, shares, nodes } = found;
  const list = (name, all, tell) => all.length > 0 && html`
    <div>
      <h3>${name} <span>${all.length}</span></h3>
      <${Items} items=${all} first=${6}>${(one) => html`<li>${tell(one)}</li>`}<//>
    </div>`;
  const pod = (key) => html`<${Name} kind="pod" name=${key} ...${{ state, set }} />`;
  const then = ({ key, was, is }) => `${key} ${was}, then ${is}`;
  const lists = [
    list("Moved", [...moved], ([key, { from, to, replaced }]) => html`
      ${pod(key)} ${from || "no node"} to ${to || "no node"}${
        replaced && `, in place of ${replaced}`}`),
    list("Came", [...came], ([key, { to }]) => html`
      ${pod(key)} ${to ? `on ${to}` : "without a node"}`),
    list("Went", [...went], ([key, { from }]) => html`${pod(key)} ${from && `from ${from}`}`),
    list("At the edge", shares, then),
    list("Nodes", nodes, then),
  ];
  return lists.some(Boolean) ? html`<div class="differences">${lists}</div>`
    : html`<p>Nothing is different.</p>`;
}
