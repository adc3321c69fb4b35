/** What is going on now, in words; what is wrong; and the figures of the scheduler. */

import { Find } from "./find.js";
import { clock, lasting } from "./times.js";
import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";

const ROLES = {
  leading: "leads", standby: "stands by", alone: "alone, without election",
  watching: "decides nothing here",
};
/** Seconds from one thing that is read out to the next. */
const CALM = 8;

export function Header({ tables, about, state: { connection, since, moment }, set, at }) {
  const status = tables.status.get("now");
  const headline = about ?? status?.headline ?? "nothing is known yet of the cluster";
  const away = connection === "away"
    && `The scheduler has not answered since ${clock(since)}, `
    + `for ${lasting(Date.now() / 1000 - since)}. What is shown is how things stood at `
    + `${clock(at)}. It is asked again and again.`;
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
      paused && ["moves", "paused",
        "By the pause switch: no new moves are begun; pods are placed.", true],
      dryRun && ["dry run", "nothing is carried out",
        "It decides, and says so, and carries nothing out.", true],
      mode && ["mode", mode, "suggester.mode: what is done with moves that are worth it"],
      bound && ["bound", `${bound} in ${batches} ${batches === 1 ? "batch" : "batches"}`,
        "Pods bound to nodes, in so many batches, since the start"],
      ["moved", movesDone, "Moves completed since the start"],
      bindP50 !== undefined && ["bind latency", `${milliseconds(bindP50)}, p99 ${milliseconds(bindP99)}`,
        "From a pod seen waiting to it seen on a node, of the last pods:"
        + " half of them within the first, 99 in 100 within the second"],
      loopLag !== undefined && ["loop lag", milliseconds(loopLag),
        "By how much the scheduler's event loop was late, at most lately"],
      ["configuration", refusal ? `refused; ${number} goes on` : number,
        refusal || "Configurations taken so far, and when the last one was", refusal],
    ]),
    moment !== null && ["shown", `the past, ${clock(moment)}`,
      "How things stood then; the timeline at the foot leads back to now.", true],
    ["connection", { connected: "live", recorded: "a recording" }[connection] ?? "trying again",
      "Whether what is shown comes from the scheduler as it happens", connection === "away"],
  ].filter(Boolean);
}

function milliseconds(value) {
  return `${value < 10 ? Number(value.toFixed(1)) : Math.round(value)} ms`;
}
