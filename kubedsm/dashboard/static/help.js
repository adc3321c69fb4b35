/** Help: keys and marks in a dialog, and a tour of three steps on the first visit. */

import { html, useEffect, useRef } from "./vendor/htm-preact.js";

/** Key of the browser's storage that says that the tour was seen. */
const SEEN = "kubedsm-tour";

const KEYS = [
  ["Anywhere", [["?", "this help"], ["/", "search; highlights services and nodes"],
    ["N", "back to now"], ["Esc", "close"]]],
  ["Nodes", [["Arrows", "next node or site"], ["Enter", "explain the node, open the site"],
    ["Backspace", "all sites"], ["+ - 0", "zoom, whole picture"]]],
  ["Timeline", [["Left, Right", "previous, next change"], ["Page Up, Page Down", "10 s later, earlier"],
    ["Home, End", "begin, now"], ["Space", "play or pause"], ["+ -", "zoom"]]],
];
/** Steps of the tour: heading, text, and the part of the page that the step is about. */
const TOUR = [
  ["Is all well?", "The word at the top is the state, with its reasons below. The column lists services "
    + "by their shortfall at the edge, then waiting pods, migrations and news.", ".page-header"],
  ["Why is that pod there?", "Each box is a node, filled by what its pods request. Click a pod, a node "
    + "or any name to see why; the answer has an address that you can send.", ".cluster"],
  ["What happened, and what if?", "Drag along the timeline to see an earlier moment. “What if?” computes "
    + "a drain, a lost site or another target on a copy.", ".timeline"],
];

/** Return whether this browser has not shown the tour; false without storage. */
export function tourIsNew() {
  try {
    return localStorage.getItem(SEEN) === null;
  } catch {
    return false;
  }
}

function rememberTour() {
  try {
    localStorage.setItem(SEEN, "done");
  } catch {
    // Without storage, the tour is not shown at all.
  }
}

/** `help`: "keys", a number of a step of the tour, or null for nothing. */
export function Help({ help, set }) {
  useEffect(() => {
    const pressed = ({ key, target }) => {
      if (key === "?" && !target.closest?.("input, select, textarea")) set({ help: "keys" });
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, []);
  if (help === null) return null;
  return help === "keys" ? html`<${Keys} set=${set} />` : html`<${Tour} step=${help} set=${set} />`;
}

function Keys({ set }) {
  const dialog = useRef(null);
  useEffect(() => {
    dialog.current.showModal();
    return () => dialog.current?.close();
  }, []);
  return html`
    <dialog class="help" ref=${dialog} aria-labelledby="help" onClose=${() => set({ help: null })}>
      <h2 id="help">KubeDSM</h2>
      <p>KubeDSM schedules pods to edge and cloud nodes, and migrates pods so that each service has the
        share at the edge that its target demands. This page shows the cluster, and changes nothing.</p>
      ${KEYS.map(([where, keys]) => html`
        <h3>${where}</h3>
        <dl>${keys.map(([key, does]) => html`<dt><kbd>${key}</kbd></dt><dd>${does}</dd>`)}</dl>`)}
      <form method="dialog"><button>Close</button>
        <button type="button" onClick=${() => set({ help: 0 })}>Tour</button></form>
    </dialog>`;
}

function Tour({ step, set }) {
  const [title, text, part] = TOUR[step];
  const last = step === TOUR.length - 1;
  useEffect(() => {
    const shown = document.querySelector(part);
    shown?.classList.add("toured");
    return () => shown?.classList.remove("toured");
  }, [part]);
  const end = () => {
    rememberTour();
    set({ help: null });
  };
  return html`
    <aside class="tour" aria-label="Tour" aria-live="polite">
      <p class="soft">${step + 1} of ${TOUR.length}</p>
      <h2>${title}</h2><p>${text}</p>
      <button onClick=${last ? end : () => set({ help: step + 1 })}>${last ? "Done" : "Next"}</button>
      ${!last && html`<button onClick=${end}>Skip</button>`}
    </aside>`;
}
