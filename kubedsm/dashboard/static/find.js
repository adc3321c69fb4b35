/** Search for pods, workloads and nodes by a part of their name. */

import { html, useEffect, useMemo, useRef, useState } from "./vendor/htm-preact.js";

const MOST = 12;

/** Description of a search result, by kind. */
const SAID = {
  workload: ({ kind, edge, total }) => `${kind}, ${edge} of ${total} at the edge`,
  node: ({ tier, state }) => `node${tier ? ` (${tier})` : ""}${state ? `, ${state}` : ""}`,
  pod: ({ node, state }) => `pod${node ? ` on ${node}` : ""}, ${state}`,
};

/** Return the objects with `part` in their names; names that begin with the part come first. */
function found(tables, part) {
  const wanted = part.trim().toLowerCase();
  if (!wanted) return [];
  const all = Object.keys(SAID).flatMap((kind) => [...tables[`${kind}s`]].map(([key, row]) => {
    const at = key.toLowerCase().indexOf(wanted);
    return { kind, key, row, at, inside: at > 0 && key[at - 1] !== "/" };
  })).filter(({ at }) => at >= 0);
  return all.sort((one, other) => one.inside - other.inside || (one.key < other.key ? -1 : 1))
    .slice(0, MOST);
}

/** Return the workloads and nodes to highlight: those with matching names, else nodes of such pods. */
export function matches({ workloads, nodes, pods }, part) {
  const wanted = part.trim().toLowerCase();
  const named = (rows) => [...rows].filter(([key]) => key.toLowerCase().includes(wanted));
  if (!wanted) return { workloads: new Set(), nodes: new Set() };
  const found = [workloads, nodes].map((rows) => new Set(named(rows).map(([key]) => key)));
  if (found.some(({ size }) => size)) return { workloads: found[0], nodes: found[1] };
  const few = named(pods).map(([, { node }]) => node).slice(0, MOST);
  return { workloads: new Set(), nodes: new Set(few) };
}

/** Search field. `filter`: its text, which also highlights nodes; `set` changes the text. */
export function Find({ tables, filter, set }) {
  const input = useRef(null);
  const [part, setText] = useState(filter);
  const setPart = (text) => {
    setText(text);
    set({ filter: text });
  };
  // Rendering is slower than typing: the field's text is ahead of the filter meanwhile.
  useEffect(() => {
    if (document.activeElement !== input.current) setText(filter);
  }, [filter]);
  const [open, setOpen] = useState(false);
  const [at, setAt] = useState(0);
  const things = useMemo(() => found(tables, part), [tables, part]);
  const chosen = Math.min(at, things.length - 1);

  useEffect(() => {
    const focus = (event) => {
      if (event.key !== "/" || event.target.closest?.("input, textarea")) return;
      event.preventDefault();
      input.current?.focus();
    };
    document.addEventListener("keydown", focus);
    return () => document.removeEventListener("keydown", focus);
  }, []);

  const choose = ({ kind, key }) => {
    setOpen(false);
    setText("");
    set({ filter: "", chosen: { kind, key } });
  };
  const onKeyDown = (event) => {
    if (event.key === "Enter" && things.length) choose(things[chosen]);
    else if (event.key === "Escape" && open) setOpen(false);
    else if (event.key === "Escape" && part) setPart("");
    else if (event.key === "ArrowDown") setAt(Math.min(chosen + 1, things.length - 1));
    else if (event.key === "ArrowUp") setAt(Math.max(chosen - 1, 0));
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const shown = open && part.trim() !== "";
  return html`
    <div class="find" role="search">
      <input ref=${input} type="text" role="combobox" autocomplete="off" spellcheck="false"
        aria-label="Find a pod, node or workload" placeholder="Find a pod, node or workload ( / )"
        aria-expanded=${String(shown)} aria-controls="found"
        aria-activedescendant=${shown && things.length ? `found-${chosen}` : undefined}
        value=${part} onKeyDown=${onKeyDown}
        onBlur=${() => setOpen(false)}
        onInput=${(event) => { setPart(event.target.value); setOpen(true); setAt(0); }} />
      <ul id="found" role="listbox" aria-label="Found" hidden=${!shown}
        onPointerDown=${(event) => event.preventDefault()}>
        ${things.map((thing, index) => html`
          <li id=${`found-${index}`} role="option" aria-selected=${String(index === chosen)}
            onClick=${() => choose(thing)}>
            ${thing.key} <span class="soft">${SAID[thing.kind](thing.row)}</span></li>`)}
        ${shown && !things.length && html`
          <li role="option" aria-selected="false" aria-disabled="true">
            Nothing has that in its name.</li>`}
      </ul>
    </div>`;
}
