/** Where is it? Pods, workloads and nodes by a part of their name. */

import { html, useEffect, useMemo, useRef, useState } from "./vendor/htm-preact.js";

const MOST = 12;

/** Things with `part` in their names, those whose names begin with it first: { kind, key, row }. */
export function found(tables, part, most = MOST) {
  const wanted = part.trim().toLowerCase();
  if (!wanted) return [];
  const all = [];
  for (const [kind, table] of [["workload", "workloads"], ["node", "nodes"], ["pod", "pods"]]) {
    for (const [key, row] of tables[table]) {
      const at = key.toLowerCase().indexOf(wanted);
      if (at >= 0) all.push({ kind, key, row, rank: at === 0 || key[at - 1] === "/" ? 0 : 1 });
    }
  }
  return all.sort((one, other) => one.rank - other.rank || (one.key < other.key ? -1 : 1))
    .slice(0, most);
}

const WHERE = {
  pod: ({ node, state }) => (node ? `pod on ${node}, ${state}` : `pod, ${state}`),
  node: ({ tier, state }) => `node${tier ? ` (${tier})` : ""}${state ? `, ${state}` : ""}`,
  workload: ({ edge = 0, total, kind }) => `${kind}, ${edge} of ${total} at the edge`,
};

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
          <li key=${thing.kind + thing.key} id=${`found-${index}`} role="option"
            aria-selected=${String(index === chosen)} onClick=${() => choose(thing)}>
            ${thing.key} <span class="soft">${WHERE[thing.kind](thing.row)}</span></li>`)}
        ${open && !things.length && html`
          <li role="option" aria-selected="false" aria-disabled="true">
            Nothing has that in its name.</li>`}
      </ul>
    </div>`;
}
