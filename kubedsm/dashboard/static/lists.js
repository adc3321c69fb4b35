/** Lists of migrations, waiting pods and news. */

import { clock, lasting } from "./formats.js";
import { html, useMemo, useState } from "./vendor/htm-preact.js";

/** Items that a click adds to a shortened list. */
const MORE = 50;

/** Section of the page, or `of` one of its recordings, with a heading, a note and an action. */
export function Part({ name, title, of, note, action, children }) {
  return html`
    <section class=${`list ${name}`} aria-label=${of ? `${title}, ${of}` : title}>
      <header><h2>${title}</h2>${note && html`<span class="soft">${note}</span>`}${action}</header>
      ${children}
    </section>`;
}

/** List of the `first` items, and a button for more. `children` renders one; `none`: empty text. */
export function Items({ items, first, none, children }) {
  const [shown, setShown] = useState(first);
  if (!items.length) return html`<p class="soft">${none}</p>`;
  const more = items.length - shown;
  return html`
    <ul>${items.slice(0, shown).map(children)}</ul>
    ${more > 0 && html`<button class="more" onClick=${() => setShown(shown + MORE)}>
      and ${more} more</button>`}`;
}

/** Name as a button that selects the object. */
export function Name({ kind, name, state, set, children = name }) {
  const chosen = state.chosen?.kind === kind && state.chosen.key === name;
  return html`
    <button class=${`name ${chosen ? "chosen" : ""}`} aria-current=${chosen ? "true" : undefined}
      onClick=${() => set({ chosen: { kind, key: name } })}>${children}</button>`;
}

/** Return the waiting pods grouped by workload and reason, the longest waiting first. */
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
  gated: "Its scheduling gates have to be removed first.", waiting: "No attempt yet.",
};

function Group({ group: [oldest, ...others], at, state, set }) {
  const [, { workload, state: waits, message, rules, roomOn }] = oldest;
  const one = ([name, { created }]) => html`
    <${Name} kind="pod" ...${{ name, state, set }} />
    <span class="soft figures"> for ${lasting(Math.max(0, at - created))}</span>`;
  return html`
    <li>
      ${one(oldest)}
      <p>${message || HELD[waits]}${roomOn && ` Capacity is being freed for it on ${roomOn}.`}</p>
      ${rules && html`<p class="soft">Rejected by ${rules.join(", ")}</p>`}
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
        none=${standingBy(tables) || "No news yet."}>
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

/** Return why a standby shows no decisions; empty for other roles. */
export function standingBy(tables) {
  const { role, leader } = tables.status.get("now") ?? {};
  if (role !== "standby") return "";
  return `This replica is a standby and remembers no decisions and no migrations; ${
    leader ? `${leader} leads: open its page.` : "the leader is not known."}`;
}

/** Return the subject of a row of news, { kind, name }; undefined if it has none. */
export function subject(row) {
  const kind = ["decision", "move", "pod", "workload", "node"].find((each) => row[each]);
  return kind && { kind, name: String(row[kind]) };
}

const ENDED = { completed: "good", "rolled back": "warn", failed: "bad", dropped: "soft" };

/** Return migrations in progress, planned, proposed, and ended, the last ended first. */
function sorted(moves) {
  const { moving = [], planned = [], proposed = [], over = [] } = Object.groupBy(
    moves, ([, { state }]) => (state in ENDED ? "over" : state),
  );
  moving.sort(([, one], [, other]) => (one.began || one.at) - (other.began || other.at));
  over.sort(([, one], [, other]) => (other.ended || other.at) - (one.ended || one.at));
  return { moving, planned, proposed, over };
}

export function Moves({ tables, at, state, of, set }) {
  const { moving, planned, proposed, over } = useMemo(() => sorted(tables.moves), [tables.moves]);
  const proposal = tables.status.get("now")?.proposal;
  const some = (items, first, title = null) => items.length > 0 && html`
    ${title && html`<h3>${title}</h3>`}
    <${Items} items=${items} first=${first}>${([id, row]) => html`
      <${Move} key=${id} ...${{ id, row, at, state, set }} />`}<//>`;
  return html`
    <${Part} of=${of} name="moves" title="Migrations"
      note=${moving.length ? `${moving.length} in progress` : ""}>
      ${some(moving, 8)}
      ${some(planned, 4, "Planned")}
      ${some(proposed, 8, proposal ? html`Proposed; to approve: <code>kubedsm approve${" "}
        ${proposal}</code>` : "Proposed")}
      ${some(over, 3, moving.length || planned.length ? "Recent" : null)}
      ${!tables.moves.size && html`<p class="soft">${standingBy(tables)
        || `None yet: pods are migrated if the benefit exceeds the cost.`}</p>`}
    <//>`;
}

function Move({ id, row, at, state, set }) {
  return html`
    <li>
      <${Name} kind="move" name=${id} ...${{ state, set }}>${row.pod}<//>
      ${" "}<span class="way soft">${row.source || "?"} → ${row.target}</span>
      ${row.state === "moving" && html`<${Step} ...${{ row, at }} />`}
      ${row.state in ENDED && html`<p><b class=${ENDED[row.state]}>${row.state}</b>
        ${row.ended > 0 && html` <span class="soft">at ${clock(row.ended)}</span>`}
        ${row.reason && `: ${row.reason}`}${row.helped && `; ${row.helped}`}</p>`}
      ${row.purpose && html`<p class="soft">${row.purpose}</p>`}
    </li>`;
}

/** Current step of a migration, and its progress. */
function Step({ row: { step, since, done = 0, steps = 0 }, at }) {
  const over = `${done} of ${steps} steps done`;
  return html`
    <p class="step">
      <span class="steps" role="img" aria-label=${over} title=${over}>
        ${Array.from({ length: steps }, (_, index) => html`
          <i class=${index < done ? "over" : index === done ? "now" : ""} />`)}</span>
      <span>${step}${since && html`
        <span class="soft figures">, ${lasting(Math.max(0, at - since))}</span>`}</span>
    </p>`;
}
