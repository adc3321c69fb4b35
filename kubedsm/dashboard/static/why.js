/** Panel with the explanation of the selected object, or with a "what if?" question. */

import { canGoBack } from "./address.js";
import { Answered, Lines, useAnswer } from "./answer.js";
import { Chart, ChartLegend } from "./chart.js";
import { seen } from "./descriptions.js";
import { clock } from "./formats.js";
import { formatChanges } from "./hypothesis.js";
import { colourOf, ranked } from "./palette.js";
import { Share } from "./share.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/htm-preact.js";
import { canImagine, WhatIf } from "./what_if.js";

const ASKED = ["pod", "node", "workload", "move", "decision"];
/** Seconds without a change of the object before its explanation is requested again. */
const STEADY = 0.5;

/** Panel, if the selected object has an explanation. */
export function Why(props) {
  const kind = props.state.chosen?.kind;
  const imagines = kind === "what-if" && canImagine(props.ask, props.tables);
  return (imagines || ASKED.includes(kind)) && html`<${Panel} ...${props} imagines=${imagines} />`;
}

function Panel({ tables, recording, at, state, set, ask, imagines }) {
  const { chosen } = state;
  const close = () => set({ chosen: null });
  const heading = useFocus(chosen, close);
  const go = ({ kind, key }) => {
    if (kind === "moment") return set({ moment: Number(key) });
    return set({ chosen: { kind, key } });
  };
  return html`
    <aside class=${imagines ? "why imagines" : "why"} aria-labelledby="why">
      <header>
        <h2 id="why" tabindex="-1" ref=${heading}>${imagines ? "What if?" : title(chosen)}</h2>
        ${canGoBack() && html`<button onClick=${() => history.back()}>Back</button>`}
        <button onClick=${close}>Close</button>
      </header>
      <${imagines ? WhatIf : Told} ...${{ tables, recording, at, state, ask, go, set }} />
    </aside>`;
}

function title({ kind, key }) {
  return `${kind[0].toUpperCase()}${kind.slice(1)}${kind === "move" ? "" : ` ${key}`}`;
}

/** Focus the panel's heading, and afterwards the former element; return the heading's reference. */
function useFocus(chosen, close) {
  const heading = useRef(null);
  const [came] = useState(() => document.activeElement);
  useLayoutEffect(() => heading.current.focus({ preventScroll: true }), [chosen]);
  useLayoutEffect(() => () => came.isConnected && came.focus({ preventScroll: true }), []);
  useEffect(() => {
    const pressed = (event) => event.key === "Escape" && !event.defaultPrevented && close();
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  });
  return heading;
}

function Told({ tables, recording, at, state: { chosen, moment }, ask, go }) {
  const { kind, key } = chosen;
  const path = `why?${kind}=${encodeURIComponent(key)}`;
  const past = moment !== null;
  // Explanations of workloads are expensive: a changed row does not repeat the request.
  const row = past || kind === "workload" ? null : tables[`${kind}s`]?.get(key);
  const { answer, error } = useAnswer(ask, path, path, row, STEADY);
  return html`
    ${past && html`<p class="soft">At ${clock(moment)}:</p>`}
    ${(past || !ask || error) && html`<${Lines} lines=${seen(chosen, tables)} go=${go} />`}
    ${ask ? past && html`<p class="soft">By the current state of the scheduler:</p>`
      : html`<p class="soft">This is a recording: only the scheduler has more details.</p>`}
    ${ask && html`<${Answered} ...${{ answer, error, go }} />`}
    ${kind === "workload" && tables.workloads.has(key) && html`
      <h3>Edge share over time</h3>
      <${ChartLegend} targets=${tables.workloads.get(key).target !== undefined} />
      <${Chart} name=${key} row=${tables.workloads.get(key)} times=${true}
        ...${{ recording, at }}
        colour=${colourOf(key, ranked(tables.workloads))} />`}
    ${canImagine(ask, tables) && html`<${Imagine} ...${{ kind, name: key, go }} />`}
    <${Share} ...${{ chosen, tables, answer, moment }} />`;
}

/** Most frequent hypothetical changes, by kind of object. */
const OFTEN = {
  node: [["drain", "", "it is drained"], ["lose", "", "it is lost"], ["cordon", "", "it is cordoned"],
    ["add", "1", "there is one more like it"]],
  workload: [["replicas", "+1", "it has one more replica"], ["qos", "1", "all of it is at the edge"]],
};

function Imagine({ kind, name, go }) {
  return OFTEN[kind] && html`
    <div class="often" role="group" aria-label="What if">What if${" "}
      ${OFTEN[kind].map(([change, value, words]) => html`
        <button onClick=${() => go({
          kind: "what-if", key: formatChanges([{ change, name, value }]) })}>${words}?</button>`)}
    </div>`;
}
