/** "What if?": changes of nodes and workloads to assume, and the answer. */

import { Answered, useAnswer } from "./answer.js";
import { CHANGES, formatChanges, inWords, parseChanges } from "./hypothesis.js";
import { Share } from "./share.js";
import { html, useState } from "./vendor/htm-preact.js";

/** Seconds without another change before the request. */
const PAUSE = 0.2;

/** Return true if a scheduler can answer: a page that only watches a cluster has none. */
export function canImagine(ask, tables) {
  return ask && tables.status.get("now")?.role !== "watching";
}

/** What-if panel; the selection's key is the question, so the URL contains it. */
export function WhatIf({ tables, state: { chosen }, ask, go, set }) {
  const changes = parseChanges(chosen.key);
  const { answer, error, asking } = useAnswer(ask, `what-if?${chosen.key}`, "what-if", null, PAUSE);
  const become = (next) => set({ chosen: { kind: "what-if", key: formatChanges(next) } });
  return html`
    <p>Nothing is changed: the result is computed on a copy.</p>
    <${Form} tables=${tables} add=${(change) => become([...changes, change])} />
    ${changes.length > 0 && html`
      <ul class="changes" aria-label="Assumed changes">${changes.map((each, index) => html`
        <li key=${inWords(each)}>${inWords(each)}
          <button aria-label=${`Remove: ${inWords(each)}`}
            onClick=${() => become(changes.toSpliced(index, 1))}>×</button></li>`)}
      </ul>`}
    <${Answered} ...${{ answer, error, go }} busy=${asking} />
    <${Share} ...${{ chosen, tables, answer, moment: null }} />`;
}

function namesOf(of, tables) {
  if (of !== "sites") return [...tables[of].keys()].sort();
  const sites = [...tables.nodes.values()].map(({ tier, site }) => tier === "edge" && site);
  return [...new Set(sites)].filter(Boolean).sort();
}

function Form({ tables, add }) {
  const [change, setChange] = useState("drain");
  const [name, setName] = useState("");
  const [value, setValue] = useState("");
  const { of, value: wanted } = CHANGES[change];
  const names = namesOf(of, tables);
  const choose = ({ target }) => {
    setChange(target.value);
    setValue(CHANGES[target.value].value?.start ?? "");
    if (CHANGES[target.value].of !== of) setName("");
  };
  const onSubmit = (event) => {
    event.preventDefault();
    if (!names.includes(name)) return;
    add({ change, name, value: wanted ? value.trim() : "" });
    setName("");
  };
  return html`
    <form class="assume" onSubmit=${onSubmit}>
      <label>Assume <select aria-label="Change" value=${change} onChange=${choose}>
        ${Object.entries(CHANGES).map(([key, { label }]) => html`
          <option value=${key}>${label}</option>`)}</select></label>
      <input list="assumed" required aria-label=${`Name: ${CHANGES[change].label}`} value=${name}
        placeholder=${names[0] ?? `no ${of}`} autocomplete="off" spellcheck="false"
        onInput=${({ target }) => {
          setName(target.value);
          target.setCustomValidity(names.includes(target.value) ? "" : `No such name in ${of}.`);
        }} />
      <datalist id="assumed">${names.map((each) => html`<option value=${each} />`)}</datalist>
      ${wanted && html`<input required aria-label=${wanted.text} title=${wanted.text} value=${value}
        placeholder=${wanted.text} onInput=${({ target }) => setValue(target.value)} />`}
      <button type="submit">Add</button>
    </form>`;
}
