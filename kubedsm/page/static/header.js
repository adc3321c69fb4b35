/** What is going on now, in words; what is wrong; and the figures of the scheduler. */

import { Find } from "./find.js";
import { clock } from "./times.js";
import { html } from "./vendor/htm-preact.js";

const ROLES = {
  leading: "leads", standby: "stands by", alone: "alone, without election",
  watching: "decides nothing here",
};

export function Header({ tables, about, state, set }) {
  const status = tables.status.get("now");
  return html`
    <header class="page-header">
      <h1>KubeDSM</h1>
      <p class="headline" role="status">${
        about ?? status?.headline ?? "Nothing is known yet of the cluster."}</p>
      <${Find} tables=${tables} set=${set} />
      <${Troubles} troubles=${status?.troubles ?? []} state=${state} />
      ${status && about === null && html`<${Facts} status=${status} />`}
    </header>`;
}

function Troubles({ troubles, state: { connection, since, moment } }) {
  const away = connection === "away"
    && `The scheduler has not answered since ${clock(since)}: this is how things stood then. `
    + "It is asked again and again.";
  const past = connection !== "recorded" && moment !== null
    && `This is the past: how things stood at ${clock(moment)}. “Now” at the foot leads back.`;
  if (!away && !past && !troubles.length) return null;
  return html`
    <ul class="troubles" aria-label="What is wrong">
      ${past && html`<li class="past">${past}</li>`}
      ${away && html`<li role="alert">${away}</li>`}
      ${troubles.map((trouble) => html`<li key=${trouble}>${trouble}</li>`)}
    </ul>`;
}

function Facts({ status }) {
  const deciding = status.role !== "watching";
  return html`
    <dl class="facts">
      <${Fact} name="this one" title="Of several schedulers, one leads, and the others stand by.">
        ${ROLES[status.role ?? "alone"]}${status.leader && `; ${status.leader} leads`}<//>
      ${deciding && html`
        ${status.paused && html`<${Fact} name="moves" off>paused<//>`}
        ${status.dryRun && html`<${Fact} name="dry run" off>nothing is carried out<//>`}
        <${Fact} name="mode" title="suggester.mode: what is done with moves that are worth it">
          ${status.mode || "-"}<//>
        <${Fact} name="bound" title="Pods bound to nodes, in so many batches, since the start">
          ${status.bound ?? 0} in ${status.batches ?? 0} batches<//>
        <${Fact} name="moved" title="Moves completed since the start">${status.movesDone ?? 0}<//>
        <${Fact} name="bind latency"
          title="From a pod seen waiting to it seen on a node, of the last pods: median and 99th percentile">
          ${milliseconds(status.bindP50)}, p99 ${milliseconds(status.bindP99)}<//>
        <${Fact} name="loop lag" title="By how much the scheduler's event loop was late, at most lately">
          ${milliseconds(status.loopLag)}<//>
        <${Fact} name="configuration" off=${Boolean(status.refusal)}
          title=${status.refusal || "How often a configuration was taken, and when the last one was"}>
          ${status.refusal ? "refused" : `no. ${status.generation ?? 0}`}
          ${status.configured ? ` at ${clock(status.configured)}` : ""}<//>`}
    </dl>`;
}

function Fact({ name, title, off = false, children }) {
  return html`<div class=${off ? "off" : ""} title=${title}><dt>${name}</dt><dd>${children}</dd></div>`;
}

function milliseconds(value) {
  return value === undefined || value === null ? "-" : `${Math.round(value)} ms`;
}
