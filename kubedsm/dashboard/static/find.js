/** Where is it? Pods, workloads and nodes by a part of their name. */

import { html, useEffect, useMemo, useRef, useState } from "./vendor/htm-preact.js";

const MOST = 12;

/** What is said of each kind that can be found. */
const SAID = {
  workload: ({ kind, edge, total }) => `${kind}, ${edge} of ${total} at the edge`,
  node: ({ tier, state }) => `node${tier ? ` (${tier})` : ""}${state ? `, ${state}` : ""}`,
  pod: ({ node, state }) => `pod${node ? ` on ${node}` : ""}, ${state}`,
};

/** Things with `part` in their names, those whose names begin with it first. */
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

export function Find({ tables, set }) {
  const [part, setPart] = useState("");
  const [at, setAt] = useState(0);
  const input = useRef(null);
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
    setPart("");
    set({ chosen: { kind, key } });
  };
  const onKeyDown = (event) => {
    if (event.key === "Enter" && things.length) choose(things[chosen]);
    else if (event.key === "Escape" && part) setPart("");
    else if (event.key === "ArrowDown") setAt(Math.min(chosen + 1, things.length - 1));
    else if (event.key === "ArrowUp") setAt(Math.max(chosen - 1, 0));
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const open = part.trim() !== "";
  return html`
    <div class="find" role="search">
      <input ref=${input} type="text" role="combobox" autocomplete="off" spellcheck="false"
        aria-label="Find a pod, node or workload" placeholder="Find a pod, node or workload ( / )"
        aria-expanded=${String(open)} aria-controls="found"
        aria-activedescendant=${open && things.length ? `found-${chosen}` : undefined}
        value=${part} onKeyDown=${onKeyDown}
        onInput=${(event) => { setPart(event.target.value); setAt(0); }} />
      <ul id="found" role="listbox" aria-label="Found" hidden=${!open}>
        ${things.map((thing, index) => html`
          <li id=${`found-${index}`} role="option" aria-selected=${String(index === chosen)}
            onClick=${() => choose(thing)}>
            ${thing.key} <span class="soft">${SAID[thing.kind](thing.row)}</span></li>`)}
        ${open && !things.length && html`
          <li role="option" aria-selected="false" aria-disabled="true">
            Nothing has that in its name.</li>`}
      </ul>
    </div>`;
}
