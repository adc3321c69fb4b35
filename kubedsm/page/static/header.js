/** What is going on now, in words; what is wrong; and the figures of the scheduler. */

import { Find } from "./find.js";
import { clock, lasting } from "./times.js";
import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";

const ROLES = {
  leading: "leads", standby: "stands by", alone: "alone, without election",
  watching: "decides nothing here",
};
const LATENCY = "From a pod seen waiting to it seen on a node, of the last pods:"
  + " half of them within the first, 99 in 100 within the second";
/** Seconds from one thing that is read out to the next. */
const CALM = 8;

export function Header({ tables, about, state, set, at }) {
  const status = tables.status.get("now");
  const headline = about ?? status?.headline ?? "nothing is known yet of the cluster";
  const past = state.connection !== "recorded" && state.moment !== null;
  return html`
    <header class="page-header">
      <h1>KubeDSM</h1>
      <${Headline} text=${headline} />
      <${Spoken} text=${headline} />
      <${Find} tables=${tables} set=${set} />
      <${Troubles} troubles=${status?.troubles ?? []} ...${{ state, at }} />
      ${past && html`<p class="past">This is the past: how things stood
        at ${clock(state.moment)}.</p>`}
      ${status && about === null && html`<${Facts} ...${{ status, state }} />`}
    </header>`;
}

/** What is going on; where a name begins it, its letters stay as they are. */
export function Headline({ text }) {
  return html`<p class=${/^\S+\//.test(text) ? "headline named" : "headline"}>${text}</p>`;
}

/** For who hears it: that time goes by is not read out, nor is every change at once. */
function Spoken({ text, role = "status" }) {
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

function Troubles({ troubles, state: { connection, since }, at }) {
  const away = connection === "away"
    && `The scheduler has not answered since ${clock(since)}, `
    + `for ${lasting(Date.now() / 1000 - since)}. What is shown is how things stood at `
    + `${clock(at)}. It is asked again and again.`;
  return html`
    <${Spoken} role="alert"
      text=${[away ? "The scheduler does not answer." : "", ...troubles].join(" ")} />
    ${(away || troubles.length > 0) && html`
      <ul class="troubles" aria-label="What is wrong">
        ${away && html`<li><b>Away</b>${away}</li>`}
        ${troubles.map((trouble) => html`<li key=${trouble}><b>Trouble</b>${trouble}</li>`)}
      </ul>`}`;
}

function Facts({ status, state }) {
  const deciding = status.role !== "watching";
  return html`
    <dl class="facts">
      <${Fact} name="this scheduler" off=${status.role === "standby"}
        title="Of several schedulers, one leads, and the others stand by.">
        ${ROLES[status.role ?? "alone"]}${status.leader && `; ${status.leader} leads`}<//>
      ${deciding && html`
        ${status.paused && html`<${Fact} name="moves" off
          title="By the pause switch: no new moves are begun; pods are placed.">paused<//>`}
        ${status.dryRun && html`<${Fact} name="dry run" off
          title="It decides, and says so, and carries nothing out.">nothing is carried out<//>`}
        ${status.mode && html`<${Fact} name="mode"
          title="suggester.mode: what is done with moves that are worth it">${status.mode}<//>`}
        <${Fact} name="bound" title="Pods bound to nodes, in so many batches, since the start">
          ${status.bound ?? 0} in ${status.batches ?? 0} batches<//>
        <${Fact} name="moved" title="Moves completed since the start">${status.movesDone ?? 0}<//>
        <${Fact} name="bind latency"
          title=${LATENCY}>
          ${milliseconds(status.bindP50)}${typeof status.bindP99 === "number"
            && `, p99 ${milliseconds(status.bindP99)}`}<//>
        <${Fact} name="loop lag"
          title="By how much the scheduler's event loop was late, at most lately">
          ${milliseconds(status.loopLag)}<//>
        <${Fact} name="configuration" off=${Boolean(status.refusal)}
          title=${status.refusal || "Configurations taken so far, and when the last one was"}>
          ${status.refusal && "refused; "}no. ${status.generation ?? 0}
          ${status.configured ? ` of ${clock(status.configured)}` : ""}
          ${status.refusal && " goes on"}<//>`}
      <${Fact} name="connection" off=${state.connection === "away"}
        title="Whether what is shown comes from the scheduler as it happens">
        ${{ connected: "live", recorded: "a recording" }[state.connection] ?? "trying again"}<//>
    </dl>`;
}

function Fact({ name, title, off = false, children }) {
  return html`
    <div class=${off ? "off" : ""} title=${title}><dt class="soft">${name}</dt><dd class="figures">${children}</dd></div>`;
}

function milliseconds(value) {
  if (value === undefined || value === null) return "not known yet";
  return value < 10 ? `${Number(value.toFixed(1))} ms` : `${Math.round(value)} ms`;
}
