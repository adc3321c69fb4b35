/** What is going on now, in words; what is wrong; and the figures of the scheduler. */

import { Find } from "./find.js";
import { clock, lasting } from "./formats.js";
import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";

const ROLES = {
  leading: "leading", standby: "standby", alone: "without leader election",
  watching: "watching only",
};
/** Seconds from one thing that is read out to the next. */
const CALM = 8;

export function Header({ tables, about, state: { connection, since, moment }, set, at }) {
  const status = tables.status.get("now");
  const headline = about ?? status?.headline ?? "no data about the cluster yet";
  const away = connection === "away"
    && `The scheduler has not answered since ${clock(since)}, `
    + `for ${lasting(Date.now() / 1000 - since)}. The page shows the state of `
    + `${clock(at)}, and retries.`;
  const troubles = status?.troubles ?? [];
  return html`
    <header class="page-header">
      <h1>KubeDSM</h1>
      <${Headline} text=${headline} />
      <${Spoken} role="status" text=${headline} />
      <${Find} tables=${tables} set=${set} />
      <${Spoken} role="alert"
        text=${[away ? "The scheduler does not answer." : "", ...troubles].join(" ")} />
      ${(away || troubles.length > 0) && html`
        <ul class="troubles" aria-label="What is wrong">
          ${away && html`<li><b>Away</b>${away}</li>`}
          ${troubles.map((trouble) => html`<li key=${trouble}><b>Trouble</b>${trouble}</li>`)}
        </ul>`}
      ${status && about === null && html`
        <dl class="facts">${facts(status, connection, moment).map(([name, says, means, off]) => html`
          <div key=${name} class=${off ? "off" : ""} title=${means}>
            <dt class="soft">${name}</dt><dd class="figures">${says}</dd></div>`)}</dl>`}
    </header>`;
}

/** What is going on; where a name begins it, its letters stay as they are. */
export function Headline({ text }) {
  return html`<p class=${/^\S+\//.test(text) ? "headline named" : "headline"}>${text}</p>`;
}

/** For who hears it: that time goes by is not read out, nor is every change at once. */
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

/** What is known: of each its name, what it says, what that means, and whether it is unusual. */
function facts(status, connection, moment) {
  const {
    role = "alone", leader, paused, dryRun, mode, bound, batches, movesDone = 0,
    bindP50, bindP99, loopLag, refusal, generation = 0, configured,
  } = status;
  const number = `no. ${generation}${configured ? ` of ${clock(configured)}` : ""}`;
  return [
    ["this scheduler", `${ROLES[role]}${leader ? `; ${leader} leads` : ""}`,
      "Of several schedulers, one leads, and the others stand by.", role === "standby"],
    ...(role === "watching" ? [] : [
      paused && ["migrations", "paused",
        "By the pause switch: no new migrations begin; pods are scheduled.", true],
      dryRun && ["dry run", "nothing is carried out",
        "It decides and reports, and carries nothing out.", true],
      mode && ["mode", mode, "suggester.mode: how suggested migrations are handled"],
      bound && ["bound", `${bound} in ${batches} ${batches === 1 ? "batch" : "batches"}`,
        "Pods bound to nodes, in so many batches, since the start"],
      ["migrated", movesDone, "Migrations completed since the start"],
      bindP50 !== undefined && ["bind latency", `${milliseconds(bindP50)}, p99 ${milliseconds(bindP99)}`,
        "Time from a pending pod to its observed bind, for recent pods: median and 99th percentile"],
      loopLag !== undefined && ["loop lag", milliseconds(loopLag),
        "Greatest recent lag of the scheduler's event loop"],
      ["configuration", refusal ? `refused; ${number} stays in force` : number,
        refusal || "Number of configurations in force so far, and time of the last one", refusal],
    ]),
    moment !== null && ["shown", `the past, ${clock(moment)}`,
      "State at that time; the timeline below leads back to now.", true],
    ["connection", { connected: "live", recorded: "a recording" }[connection] ?? "trying again",
      "Whether the page is connected to the scheduler", connection === "away"],
  ].filter(Boolean);
}

function milliseconds(value) {
  return `${value < 10 ? Number(value.toFixed(1)) : Math.round(value)} ms`;
}
