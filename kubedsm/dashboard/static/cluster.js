/** The nodes by tier and site, each with what it holds, and the moves between them. */

import { Picture, thing, waiting } from "./picture.js";
import { title as told } from "./descriptions.js";
import { ownName } from "./formats.js";
import { html, useLayoutEffect, useMemo, useRef, useState } from "./vendor/htm-preact.js";

/** So many pods that wait are drawn one by one. */
const SHOWN = 24;

export function Cluster({ tables, compared = null, at, title, state: { chosen }, set }) {
  const host = useRef(null);
  const picture = useRef(null);
  const [hint, setHint] = useState(null);
  const heading = `cluster-${title ?? ""}`.replace(/\W+/g, "-");

  useLayoutEffect(() => {
    picture.current = new Picture(host.current, (what) => set({ chosen: what }));
    return () => picture.current.close();
  }, []);
  useLayoutEffect(() => picture.current.show(tables, chosen, compared, at),
    [tables, chosen, compared, at]);

  function pointed(event) {
    const found = event.buttons ? null : thing(event.target);
    if (!found) return hint && setHint(null);
    const { left, top, width } = event.currentTarget.getBoundingClientRect();
    const [x, y] = [event.clientX - left, event.clientY - top];
    return setHint({ ...found, x: Math.min(x, Math.max(0, width - 260)), y });
  }

  return html`
    <section class="cluster" aria-labelledby=${heading} onPointerMove=${pointed}
      onPointerLeave=${() => setHint(null)}>
      <h2 id=${heading}>${title ?? "Nodes"}</h2>
      <div class="zooms" role="group" aria-label="Zoom">
        <button aria-label="Closer" onClick=${() => picture.current.zoom.by(1.6)}>+</button>
        <button aria-label="Further" onClick=${() => picture.current.zoom.by(1 / 1.6)}>−</button>
        <button onClick=${() => picture.current.zoom.whole()}>All</button>
      </div>
      <div class="view" ref=${host}></div>
      <${Waiting} pods=${tables.pods} set=${set} />
      <${Legend} measured=${[...tables.nodes.values()].some((row) => row.cpuUsed != null)} />
      <${Hint} hint=${hint} tables=${tables} />
    </section>`;
}

function Hint({ hint, tables }) {
  const words = useMemo(() => hint && told(hint, tables), [hint?.kind, hint?.key, tables]);
  if (!words) return null;
  const at = { left: `${hint.x + 12}px`, top: `${hint.y + 16}px` };
  return html`<p class="hint" style=${at} aria-hidden="true">${words}</p>`;
}

/** Those that no node has, at the border of the picture. */
function Waiting({ pods, set }) {
  const found = useMemo(() => waiting(pods), [pods]);
  if (!found.length) return null;
  return html`
    <p class="outside">
      <span>waiting: ${found.length}</span>
      ${found.slice(0, SHOWN).map(([key, { state }]) => html`
        <button key=${key} class=${state} data-pod=${key}
          onClick=${() => set({ chosen: { kind: "pod", key } })}>
          ${ownName(key)}</button>`)}
      ${found.length > SHOWN && html`<span>and ${found.length - SHOWN} more</span>`}
    </p>`;
}

function Legend({ measured }) {
  const sample = (kind, words) => html`
    <li><svg width="18" height="12" aria-hidden="true">
      <path class="pod ${kind}" d="M1 1h16v10h-16z" /></svg> ${words}</li>`;
  return html`
    <ul class="legend" aria-label="Legend">
      <li>box: a node's capacity</li>
      <li>filled: requests, of cpu, memory or pods, whichever is scarcest there</li>
      ${sample("ready", "ready")}
      ${sample("not-ready", "not ready")}
      ${sample("starting", "starting")}
      ${sample("leaving", "leaving")}
      ${sample("held", "reserved for a pod")}
      ${measured && html`<li><svg width="18" height="12" aria-hidden="true">
        <path class="load" stroke-width="2" d="M1 4h16M1 8h16" />
        <path class="load used" stroke-width="2" d="M1 4h11M1 8h6" /></svg>
        measured cpu, memory</li>`}
    </ul>`;
}
