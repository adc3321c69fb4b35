/** What there is, in words: workloads with their promises, moves, pods that wait, and news. */

import { looks } from "./palette.js";
import { Trend } from "./trend.js";
import { clock, lasting } from "./times.js";
import { html, useState } from "./vendor/htm-preact.js";

/** A list with a heading, of which so many are shown at first. */
function List({ name, title, note, action, items, first, empty, children }) {
  const [shown, setShown] = useState(first);
  const more = items.length - shown;
  return html`
    <section class=${`list ${name}`} aria-label=${title}>
      <h2>${title} ${note && html`<span class="soft">${note}</span>`} ${action}</h2>
      ${items.length ? html`<ul>${items.slice(0, shown).map(children)}</ul>`
        : html`<p class="soft">${empty}</p>`}
      ${more > 0 && html`<button class="more" onClick=${() => setShown(shown + 50)}>
        and ${more} more</button>`}
    </section>`;
}

function Name({ kind, name, set, children = name }) {
  return html`<button class="name" onClick=${() => set({ chosen: { kind, key: name } })}>
    ${children}</button>`;
}

const percent = (part) => `${Math.round(100 * part)} %`;

export function Workloads({ tables, film, begins, at, set, ask }) {
  const all = [...tables.workloads.keys()].sort();
  const items = [...tables.workloads].sort(([one, a], [other, b]) =>
    (b.missing ?? 0) - (a.missing ?? 0) || (one < other ? -1 : 1));
  const short = items.filter(([, row]) => row.missing).length;
  return html`
    <${List} name="workloads" title="At the edge" items=${items} first=${10}
      note=${short ? `${short} of ${items.length} short of their promise` : ""}
      action=${ask && items.length > 0 && html`<button class="name"
        onClick=${() => set({ chosen: { kind: "what-if", key: "" } })}>What if?</button>`}
      empty="No pod asks for schedulerName kubedsm yet.">
      ${([name, row]) => html`
        <li key=${name}>
          <svg class="swatch" aria-hidden="true" viewBox="0 0 12 12">
            <rect width="12" height="12" fill=${looks(name, all).colour} /></svg>
          <${Name} kind="workload" name=${name} set=${set} />
          <${Trend} points=${film.history?.shares.get(name)} row=${row} begins=${begins} at=${at}
            colour=${looks(name, all).colour} />
          <span class="said"><b class="figures">${row.edge ?? 0} of ${row.total}</b>, ${promised(row)}
          </span>
          ${row.edgeSlower && html`<span class="said warn">
            answered more slowly at the edge than in the cloud${answers(row)}</span>`}
        </li>`}
    <//>`;
}

function promised({ promise = 0, missing = 0 }) {
  if (!promise) return "nothing promised";
  if (!missing) return `promised ${percent(promise)}: kept`;
  return html`<span class="bad">${missing} short of the promised ${percent(promise)}</span>`;
}

function answers({ edgeAnswers: edge, cloudAnswers: cloud }) {
  const known = typeof edge === "number" && typeof cloud === "number";
  return known ? ` (${Math.round(edge)} ms, ${Math.round(cloud)} ms)` : "";
}

/** Pods that wait, those together that wait for the same; the longest waiting first. */
export function waitingTogether(pods) {
  const groups = new Map();
  for (const [key, row] of pods) {
    if (row.state !== "waiting" && row.state !== "gated") continue;
    const why = `${row.workload}\n${row.state}\n${row.message ?? ""}`;
    const group = groups.get(why) ?? { why, row, pods: [], since: row.created };
    group.pods.push(key);
    group.since = Math.min(group.since, row.created);
    groups.set(why, group);
  }
  return [...groups.values()].sort((one, other) => one.since - other.since);
}

export function Waiting({ tables, at, set }) {
  const items = waitingTogether(tables.pods);
  return html`
    <${List} name="waiting" title="Waiting for a node" items=${items} first=${6}
      note=${items.length ? "" : ""} empty="No pod waits.">
      ${({ why, row, pods, since }) => html`
        <li key=${why}>
          <${Name} kind="pod" name=${pods[0]} set=${set} />
          ${pods.length > 1 && html` and <${Name} kind="workload" name=${row.workload} set=${set}>
            ${pods.length - 1} more of ${row.workload}<//>`}
          <span class="soft figures"> for ${lasting(Math.max(0, at - since))}</span>
          <p class="reason">${row.state === "gated" ? "It has scheduling gates."
            : row.message || "It has not been tried yet."}</p>
        </li>`}
    <//>`;
}

/** In which order moves are told. */
const ORDER = ["moving", "planned", "proposed"];
const ENDED = {
  completed: "good", "taken back": "warn", failed: "bad", dropped: "soft",
};

export function Moves({ tables, at, set }) {
  const rank = ({ state }) => (ORDER.indexOf(state) + ORDER.length + 1) % (ORDER.length + 1);
  const items = [...tables.moves].sort(([, one], [, other]) =>
    rank(one) - rank(other) || (other.ended || other.at) - (one.ended || one.at));
  const moving = items.filter(([, row]) => row.state === "moving").length;
  return html`
    <${List} name="moves" title="Moves" items=${items} first=${8}
      note=${moving ? `${moving} under way` : ""} empty="None yet.">
      ${([id, row]) => html`
        <li key=${id}>
          <${Name} kind="move" name=${id} set=${set}>${row.pod}<//>
          <span class="soft"> ${row.source} → ${row.target}</span>
          ${row.purpose && html`<span class="soft">: ${row.purpose}</span>`}
          <${Move} row=${row} at=${at} />
        </li>`}
    <//>`;
}

function Move({ row, at }) {
  if (row.state === "moving") {
    return html`
      <div class="step">
        <progress value=${row.done ?? 0} max=${row.steps || 1}
          aria-label=${`step ${(row.done ?? 0) + 1} of ${row.steps}`} />
        <span>${row.step}<span class="soft figures">${row.since
          ? `, ${lasting(Math.max(0, at - row.since))}` : ""}</span></span>
      </div>`;
  }
  return html`<p><span class=${ENDED[row.state] ?? ""}>${row.state}</span>
    ${row.ended ? html` <span class="soft">at ${clock(row.ended)}</span>` : ""}
    ${row.reason && `: ${row.reason}`}${row.helped && `; ${row.helped}`}</p>`;
}

export function News({ tables, set }) {
  const items = [...tables.news].reverse();
  return html`
    <${List} name="news" title="News" items=${items} first=${8} empty="Nothing has happened yet.">
      ${([number, row]) => html`
        <li key=${number} class=${row.warning ? "warn" : ""}>
          <time>${clock(row.at)}</time>
          ${about(row) ? html`<button class="name" onClick=${() => set({ chosen: about(row) })}>
            ${row.text}</button>` : row.text}
        </li>`}
    <//>`;
}

/** What the news is about, to ask about it. */
function about(row) {
  if (row.decision) return { kind: "decision", key: String(row.decision) };
  for (const kind of ["move", "pod", "workload", "node"]) {
    if (row[kind]) return { kind, key: row[kind] };
  }
  return null;
}
