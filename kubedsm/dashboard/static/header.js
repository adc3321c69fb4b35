/** Header of the page: headline, troubles, and figures of the scheduler. */

import { Find } from "./find.js";
import { clock, lasting } from "./formats.js";
import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";

const ROLES = {
  leading: "leading", standby: "standby", alone: "without leader election",
  watching: "watching only",
};
/** Seconds between two announcements of a screen reader. */
const CALM = 8;

export function Header({ tables, about, state: { connection, since, moment, filter }, set, at }) {
  const status = tables.status.get("now");
  const headline = about ?? status?.headline ?? "no data about the cluster yet";
  const away = connection === "away"
    && `The scheduler has not answered since ${clock(since)}, `
    + `for ${lasting(Date.now() / 1000 - since)}. The page shows the state of `
    + `${clock(at)}, and retries.`;
  const { state: health, troubles = [], notices = [] } = status ?? {};
  return html`
    <header class="page-header">
      <h1>KubeDSM${status?.cluster && html`${" "}<span class="cluster-name" title="Cluster">${
        status.cluster}</span>`}
        ${status && html`<${State} state=${status.state ?? "healthy"} />`}</h1>
      <${Headline} text=${headline} />
      <${Spoken} role="status" text=${headline} />
      <span class="tools"><${Find} ...${{ tables, filter, set }} />
        <button aria-label="Help (question mark)" title="Help (?)"
          onClick=${() => set({ help: "keys" })}>?</button></span>
      <${Spoken} role="alert"
        text=${[away ? "The scheduler does not answer." : "", ...troubles].join(" ")} />
      ${(away || troubles.length + notices.length > 0) && html`
        <ul class="troubles" aria-label="What is wrong">
          ${away && html`<li><b>Away</b>${away}</li>`}
          ${troubles.map((text) => html`<li key=${text} class=${health}><b>Trouble</b>${text}</li>`)}
          ${notices.map((text) => html`<li key=${text} class="notice"><b>Notice</b>${text}</li>`)}
        </ul>`}
      ${status && about === null && html`
        <div class="facts"><${Facts} items=${facts(status, connection, moment)} />
          ${status.role !== "watching" && html`<details class="diagnostics"><summary>Diagnostics</summary>
            <${Facts} items=${diagnostics(status)} /></details>`}</div>`}
    </header>`;
}

/** Health by the rules of docs/reference/health.md, as a word on its colour. */
function State({ state }) {
  return html`<span class=${`state ${state}`} title="Health: docs/reference/health.md">${state}</span>`;
}

function Facts({ items }) {
  return html`<dl>${items.map(([name, says, means, off]) => html`
    <div key=${name} class=${off ? "off" : ""} title=${means}>
      <dt class="soft">${name}</dt><dd class="figures">${says}</dd></div>`)}</dl>`;
}

/** Free edge capacity as numbers, and as the free part of a bar. */
function edge({ edgeCpu: cpu = 0, edgeCpuFree = 0, edgeMemory: memory = 0, edgeMemoryFree = 0 }) {
  const one = (free, all, unit) => html`
    <span class="free"><meter min="0" max="1" value=${free / all} aria-label=${`free edge ${unit}`} />
      ${`${free.toFixed(1)} of ${all.toFixed(1)} ${unit}`}</span>`;
  return cpu > 0 && ["free at the edge",
    html`${one(edgeCpuFree / 1000, cpu / 1000, "cores")}${memory > 0
      && one(edgeMemoryFree / 2 ** 30, memory / 2 ** 30, "Gi")}`,
    "Free capacity of the edge nodes that accept pods.", false];
}

/** Headline; a name at its begin keeps its lower case. */
export function Headline({ text }) {
  return html`<p class=${/^\S+\//.test(text) ? "headline named" : "headline"}>${text}</p>`;
}

/** Text for screen readers: without durations, which change constantly, and at most one per pause. */
function Spoken({ text, role }) {
  const words = text.replace(/,?( for)? \d+ (s|min|h)\b( \d+ (s|min)\b)?/g, "");
  const [said, setSaid] = useState(words);
  const last = useRef(0);
  useEffect(() => {
    if (words === said) return undefined;
    const wait = Math.max(0, last.current + 1000 * CALM - Date.now());
    const timer = setTimeout(() => {
      last.current = Date.now();
      setSaid(words);
    }, wait);
    return () => clearTimeout(timer);
  }, [words, said]);
  return html`<p class="unseen" role=${role}>${said}</p>`;
}

/** Return the facts about the state, each as [name, value, meaning, is unusual]. */
function facts(status, connection, moment) {
  const { role = "alone", leader, paused, dryRun, mode, shareDeviation: deviation } = status;
  return [
    edge(status),
    deviation !== undefined && ["deviation of edge shares", deviation.toFixed(3),
      "Standard deviation of the edge share over services with a target; 0: equal shares."],
    ["this scheduler", `${ROLES[role]}${leader ? `; ${leader} leads` : ""}`,
      "Of several schedulers, one leads, and the others stand by.", role === "standby"],
    ...(role === "watching" ? [] : [
      paused && ["migrations", "paused",
        "By the pause switch: no new migrations begin; pods are scheduled.", true],
      dryRun && ["dry run", "nothing is written",
        "The scheduler decides and logs, but binds and migrates nothing.", true],
      mode && ["mode", mode, "suggester.mode: how suggested migrations are handled"],
    ]),
    moment !== null && ["shown", `the past, ${clock(moment)}`,
      "State at that time; the timeline below leads back to now.", true],
    ["connection", { connected: "live", recorded: "a recording" }[connection] ?? "trying again",
      "Whether the page is connected to the scheduler", connection === "away"],
  ].filter(Boolean);
}

/** Return the figures of the scheduler itself, in the form of `facts`. */
function diagnostics(status) {
  const {
    bound, batches, movesDone = 0, bindP50, bindP99, loopLag, refusal, generation = 0, configured,
  } = status;
  const number = `no. ${generation}${configured ? ` of ${clock(configured)}` : ""}`;
  return [
    bound && ["bound", `${bound} in ${batches} ${batches === 1 ? "batch" : "batches"}`,
      "Pods bound to nodes since the start, and the number of their batches"],
    ["migrated", movesDone, "Migrations completed since the start"],
    bindP50 !== undefined && ["bind latency", `${milliseconds(bindP50)}, p99 ${milliseconds(bindP99)}`,
      "Time from a pending pod to its observed bind, for recent pods: median and 99th percentile"],
    loopLag !== undefined && ["loop lag", milliseconds(loopLag),
      "Greatest recent lag of the scheduler's event loop"],
    ["configuration", refusal ? `refused; ${number} stays in force` : number,
      refusal || "Number of configurations in force so far, and time of the last one", refusal],
  ].filter(Boolean);
}

function milliseconds(value) {
  return `${value < 10 ? Number(value.toFixed(1)) : Math.round(value)} ms`;
}
