/** Lists in words: pods that wait and why, what has happened; and what lists are made of. */

import { clock, lasting } from "./times.js";
import { html, useMemo, useState } from "./vendor/htm-preact.js";

/** So many more at a time, of a list that is cut. */
const MORE = 50;

/** A part of the page, or `of` one of its films, with a heading, a note and what can be done. */
export function Part({ name, title, of, note, action, children }) {
  return html`
    <section class=${`list ${name}`} aria-label=${of ? `${title}, ${of}` : title}>
      <header><h2>${title}</h2>${note && html`<span class="soft">${note}</span>`}${action}</header>
      ${children}
    </section>`;
}

/** Items, of which so many are shown at first. `children` draws one; `none`: what is said then. */
export function Items({ items, first, none, children }) {
  const [shown, setShown] = useState(first);
  if (!items.length) return html`<p class="soft">${none}</p>`;
  const more = items.length - shown;
  return html`
    <ul>${items.slice(0, shown).map(children)}</ul>
    ${more > 0 && html`<button class="more" onClick=${() => setShown(shown + MORE)}>
      and ${more} more</button>`}`;
}

/** A name that can be asked about. */
export function Name({ kind, name, state, set, children = name }) {
  const chosen = state.chosen?.kind === kind && state.chosen.key === name;
  return html`
    <button class=${`name ${chosen ? "chosen" : ""}`} aria-current=${chosen ? "true" : undefined}
      onClick=${() => set({ chosen: { kind, key: name } })}>${children}</button>`;
}

/** Pods that wait, those together that wait for the same; the longest waiting first. */
function waitingTogether(pods) {
  const waiting = [...pods].filter(([, { state }]) => state === "waiting" || state === "gated")
    .sort(([, one], [, other]) => one.created - other.created);
  const groups = Map.groupBy(waiting, ([, { workload, state, rules = [], roomOn }]) => (
    [workload, state, roomOn, ...rules].join()
  ));
  return { all: waiting.length, groups: [...groups] };
}

export function Waiting({ tables, at, state, of, set }) {
  const { all, groups } = useMemo(() => waitingTogether(tables.pods), [tables.pods]);
  return html`
    <${Part} of=${of} name="waiting" title="Waiting for a node"
      note=${all ? `${all} ${all === 1 ? "pod" : "pods"}, the oldest first` : ""}>
      <${Items} items=${groups} first=${4}
        none=${tables.pods.size ? "Every pod has its node." : "There are no pods."}>
        ${([why, group]) => html`<${Group} key=${why} ...${{ group, at, state, set }} />`}
      <//>
    <//>`;
}

const HELD = {
  gated: "Its schedulingGates are to be taken off first.", waiting: "It has not been tried yet.",
};

function Group({ group: [oldest, ...others], at, state, set }) {
  const [, { workload, state: waits, message, rules, roomOn }] = oldest;
  const one = ([name, { created }]) => html`
    <${Name} kind="pod" ...${{ name, state, set }} />
    <span class="soft figures"> for ${lasting(Math.max(0, at - created))}</span>`;
  return html`
    <li>
      ${one(oldest)}
      <p>${message || HELD[waits]}${roomOn && ` Room is being made for it on ${roomOn}.`}</p>
      ${rules && html`<p class="soft">Held by ${rules.join(", ")}</p>`}
      ${others.length > 0 && html`
        <details><summary>and ${others.length} more of ${workload}</summary>
          <${Items} items=${others} first=${10}>${(pod) => html`<li>${one(pod)}</li>`}<//>
        </details>`}
    </li>`;
}

export function News({ tables, state, of, set }) {
  const items = useMemo(() => [...tables.news].reverse(), [tables.news]);
  return html`
    <${Part} of=${of} name="news" title="News" note=${items.length > 1 ? "the latest first" : ""}>
      <${Items} items=${items} first=${12} 
        none=${standingBy(tables) || "Nothing has happened yet."}>
        ${([number, row]) => html`
          <li key=${number}>
            <time>${clock(row.at)}</time>
            <span>${row.warning && html`<b class="bad">Warning </b>`}
              ${subject(row) ? html`<${Name} ...${{ ...subject(row), state, set }}>${row.text}<//>`
                : row.text}</span>
          </li>`}
      <//>
    <//>`;
}

/** Of a standby, why it shows no decisions; else empty. */
export function standingBy(tables) {
  const { role, leader } = tables.status.get("now") ?? {};
  if (role !== "standby") return "";
  return `This replica is a standby and remembers no decisions and no migrations; ${
    leader ? `${leader} leads: open its page.` : "the leader is not known."}`;
}

/** What the news is about: { kind, name }; undefined: nothing that can be chosen. */
export function subject(row) {
  const kind = ["decision", "move", "pod", "workload", "node"].find((each) => row[each]);
  return kind && { kind, name: String(row[kind]) };
}
