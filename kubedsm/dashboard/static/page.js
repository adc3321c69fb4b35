/** The page: its state, and the views of the shown moment. */

import { address } from "./address.js";
import { Cluster } from "./cluster.js";
import { Help, tourIsNew } from "./help.js";
import { Header, Headline } from "./header.js";
import { Moves, News, Waiting } from "./lists.js";
import { Workloads } from "./targets.js";
import { Timeline } from "./timeline.js";
import { Token } from "./token.js";
import { Why } from "./why.js";
import { canImagine } from "./what_if.js";
import { html, render, useMemo } from "./vendor/htm-preact.js";

/**
 * Show recordings, side by side. `ask` sends a request to the server; without it there are no
 * explanations. `enter` gets the token, if the server requires one. `about`: description of the
 * recordings. `opening`: first shown moment, null for the last. The URL contains the state.
 * Returns `changed`, to be called after each update of a recording, and `set`, which changes the state.
 */
export function show({ recordings, ask, enter, titles = [], about = null, opening = null }) {
  let state = {
    /** "connected", "away", "refused"; "recorded" without a server */
    connection: ask ? "connected" : "recorded",
    /** time of the last change of `connection`, in seconds since the epoch */
    since: 0,
    /** shown moment, in seconds since the epoch; null: the last one */
    moment: null,
    /** selected object: { kind: "pod" | "node" | "move" …, key, recording }, or null */
    chosen: null,
    /** text of the search, which highlights services and nodes; and the only shown site, if any */
    filter: "",
    site: "",
    /** shown help: "keys", number of a step of the tour, or null */
    help: about === null && tourIsNew() ? 0 : null,
  };
  let asked = false;

  function draw() {
    asked = false;
    render(html`<${Page} ...${{ recordings, titles, about, ask, enter, state, set }} />`, document.body);
  }

  function changed() {
    if (asked) return;
    asked = true;
    requestAnimationFrame(draw);
  }

  function set(more) {
    const { connection = state.connection } = more;
    const since = connection === state.connection ? state.since : Date.now() / 1000;
    state = { ...state, since, ...more };
    keep(state);
    changed();
  }

  const keep = address((opened) => {
    state = { ...state, ...opened };
    changed();
  }, opening);
  draw();
  if (ask) setInterval(changed, 1000);
  return { changed, set };
}

/** Last end of each recording, and the local time when it was reached. */
const seen = new WeakMap();

/** Return the present time by the clock of a recording's server, which may differ from ours. */
function now(recording) {
  const here = Date.now() / 1000;
  if (seen.get(recording)?.ends !== recording.ends) seen.set(recording, { ends: recording.ends, here });
  return recording.ends + here - seen.get(recording).here;
}

/** Return the shown moment by the clock of one of the recordings. */
function momentIn(recording, [first], moment) {
  return moment === null ? recording.ends
    : Math.min(recording.ends, recording.begins + moment - first.begins);
}

function Page({ recordings, titles, about, ask, enter, state, set }) {
  const { connection, moment, chosen } = state;
  if (connection === "refused") return html`<${Token} enter=${enter} />`;
  const shown = recordings.map((recording) => recording.at(moment ?? Infinity));
  const asked = recordings[chosen?.recording] ? chosen.recording : 0;
  const live = connection === "connected" && moment === null;
  const clocks = recordings.map((recording) => (live ? now(recording) : momentIn(recording, recordings, moment)));
  if (about === null) document.title = title(shown[0].status.get("now"));
  return html`
    <${Header} tables=${shown[0]} at=${clocks[0]} ...${{ about, state, set }} />
    <main class=${titles.length ? "several" : ""}>
      ${recordings.map((recording, index) => html`
        <${Shown} key=${index} tables=${shown[index]} at=${clocks[index]} of=${titles[index]}
          ...${{ index, recording, state, set, ask }} />`)}
      <${Why} tables=${shown[asked]} recording=${recordings[asked]} at=${clocks[asked]} set=${within(asked, set)} ...${{ state, ask }} />
    </main>
    <${Timeline} ...${{ recordings, titles, state, set }} />
    <${Help} help=${state.help} set=${set} />`;
}

/** Return a `set` that adds the number of the recording to selections. */
function within(recording, set) {
  return (more) => set(more.chosen ? { ...more, chosen: { ...more.chosen, recording } } : more);
}

/** One recording at the shown moment: picture and lists. `of`: its name, if there are several. */
function Shown({ index, recording, tables, of, at, state, set: setAll, ask }) {
  const set = useMemo(() => within(index, setAll), [index, setAll]);
  const lists = { tables, recording, at, state, set, ask, of };
  return html`
    <div class="recording">
      ${of && html`<header><h2>${of}</h2>
        <${Headline} text=${tables.status.get("now")?.headline} /></header>`}
      <div class="scene">
        <${Cluster} title=${of} imagines=${canImagine(ask, tables)}
          ...${{ tables, at, state, set }} /></div>
      <div class="lists">
        <${Workloads} ...${lists} /><${Waiting} ...${lists} />
        <${Moves} ...${lists} /><${News} ...${lists} />
      </div>
    </div>`;
}

/** Return the title of the browser's tab. */
function title(status) {
  if (!status) return "KubeDSM";
  const { state = "healthy", moving = 0, waiting = 0 } = status;
  const says = [
    state !== "healthy" && state,
    moving && `migrating ${moving}`,
    waiting && `${waiting} waiting`,
  ].filter(Boolean);
  return says.length ? `${says.join(", ")} - KubeDSM` : "KubeDSM";
}
