/** The answer to "why?" about what is chosen, beside the page: and to "what if?". */

import { Answer, useAnswer, Words } from "./answer.js";
import { seen } from "./seen.js";
import { clock } from "./times.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/htm-preact.js";
import { canImagine, WhatIf } from "./what_if.js";

const ASKED = ["pod", "node", "workload", "move", "decision"];
/** Seconds that what is asked about has to stay as it is, to be asked about again. */
const STEADY = 0.5;

/** Nothing, unless something is chosen that can be asked about. */
export function Why({ tables, state, set, ask }) {
  const { chosen } = state;
  const imagines = chosen?.kind === "what-if" && canImagine(ask, tables);
  if (!imagines && !ASKED.includes(chosen?.kind)) return null;
  return html`<${Panel} ...${{ tables, state, set, ask }} />`;
}

function Panel({ tables, state, set, ask }) {
  const { chosen } = state;
  const [before, setBefore] = useState([]);
  const close = () => set({ chosen: null });
  const heading = useFocus(chosen, close);
  const go = ({ kind, key }) => {
    if (kind === "moment") return set({ moment: Number(key) });
    setBefore([...before, chosen]);
    return set({ chosen: { kind, key } });
  };
  const back = () => {
    setBefore(before.slice(0, -1));
    set({ chosen: before.at(-1) });
  };
  const imagines = chosen.kind === "what-if";
  return html`
    <aside class=${imagines ? "why imagines" : "why"} aria-labelledby="why">
      <header>
        <h2 id="why" tabindex="-1" ref=${heading}>${imagines ? "What if?" : title(chosen)}</h2>
        ${before.length > 0 && html`<button onClick=${back}>Back</button>`}
        <button onClick=${close}>Close</button>
      </header>
      ${imagines
        ? html`<${WhatIf} ...${{ tables, ask, go }} />`
        : html`<${Told} ...${{ tables, state, ask, go }} />`}
    </aside>`;
}

function title({ kind, key }) {
  return `${kind[0].toUpperCase()}${kind.slice(1)}${kind === "move" ? "" : ` ${key}`}`;
}

/** The focus goes in, to the heading, and back to where it was. A reference to the heading. */
function useFocus(chosen, close) {
  const heading = useRef(null);
  const [came] = useState(() => document.activeElement);
  useLayoutEffect(() => heading.current.focus({ preventScroll: true }), [chosen]);
  useLayoutEffect(() => () => came.isConnected && came.focus({ preventScroll: true }), []);
  useEffect(() => {
    const pressed = (event) => {
      if (event.key === "Escape" && !event.defaultPrevented) close();
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  });
  return heading;
}

function Told({ tables, state: { chosen, moment }, ask, go }) {
  const { kind, key } = chosen;
  const path = `why?${kind}=${encodeURIComponent(key)}`;
  // What it takes long to find out is not asked for again and again.
  const row = moment === null && kind !== "workload" ? tables[`${kind}s`]?.get(key) : null;
  const { answer, error } = useAnswer(ask, path, path, row, STEADY);
  const rows = seen(chosen, tables);
  return html`
    ${(moment !== null || !ask || error) && html`
      ${moment !== null && html`<p class="soft">At ${clock(moment)}:</p>`}
      ${rows.map((words) => html`<p><${Words} words=${words} go=${go} /></p>`)}`}
    ${!ask && html`<p class="soft">This is a recording: only the scheduler itself knows more.</p>`}
    ${ask && moment !== null && html`<p class="soft">By all that the scheduler knows now:</p>`}
    <div aria-live="polite" aria-busy=${Boolean(ask && !answer && !error)}>
      ${error && html`<p class="soft">${error}</p>`}
      ${answer && html`<${Answer} answer=${answer} go=${go} />`}
    </div>
    ${kind === "workload" && canImagine(ask, tables) && html`
      <button onClick=${() => go({ kind: "what-if", key: "" })}>What if?</button>`}`;
}
