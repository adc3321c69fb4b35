/** Answers as they are drawn: sentences with links to what they are about, and tables. */

import { clock } from "./times.js";
import { html, useEffect, useState } from "./vendor/htm-preact.js";

/** A sentence; `go` hears which of its links is followed: { kind, key }. */
export function Words({ words, go }) {
  return words.map((word) => (typeof word === "string" ? word : html`
    <button class="name" onClick=${() => go(word)}>${word.text || clock(word.key)}</button>`));
}

/** All of an answer but its title. */
export function Answer({ answer: { lines, sections = [] }, go }) {
  return html`
    ${lines.map((words) => html`<p><${Words} words=${words} go=${go} /></p>`)}
    ${sections.map((section) => (section.folded
      ? html`<${Folded} key=${section.title} section=${section} go=${go} />`
      : html`<section key=${section.title}>
          <h3>${section.title}</h3><${Body} section=${section} go=${go} />
        </section>`))}`;
}

function Body({ section: { title, lines = [], table, code }, go }) {
  return html`
    ${lines.map((words) => html`<p><${Words} words=${words} go=${go} /></p>`)}
    ${table && html`
      <div class="wide" tabindex="0" role="group" aria-label=${title}><table>
        <thead><tr>${table.headings.map((heading) => html`<th scope="col">${heading}</th>`)}</tr>
        </thead>
        <tbody>${table.rows.map((row) => html`<tr>${row.map((words) => html`
          <td><${Words} words=${words} go=${go} /></td>`)}</tr>`)}</tbody>
      </table></div>`}
    ${code && html`<pre tabindex="0">${code}</pre>`}`;
}

/** What is long is drawn when somebody wants to see it. */
function Folded({ section, go }) {
  const [open, setOpen] = useState(false);
  return html`
    <details onToggle=${(event) => setOpen(event.target.open)}>
      <summary>${section.title}</summary>
      ${open && html`<${Body} section=${section} go=${go} />`}
    </details>`;
}

/**
 * The answer at a path: { answer, error, asking }. It is asked for again when `fresh` is another
 * one; what was answered last stays until then, unless `about` is something else. `pause`: seconds
 * that are waited for another question. Without `ask` nothing is answered.
 */
export function useAnswer(ask, path, about, fresh, pause = 0) {
  const [said, setSaid] = useState({});
  useEffect(() => {
    if (!ask) return undefined;
    const stopping = new AbortController();
    const told = (more) => !stopping.signal.aborted && setSaid({ about, ...more });
    setSaid((before) => (before.about === about ? { ...before, asking: true } : { about }));
    const waiting = setTimeout(() => {
      ask(path, stopping.signal)
        .then((answer) => answer.json())
        .then((answer) => told({ answer }), (error) => told({ error: inWords(error) }));
    }, 1000 * pause);
    return () => {
      clearTimeout(waiting);
      stopping.abort();
    };
  }, [ask, path, fresh]);
  return said.about === about ? said : {};
}

function inWords({ status, message }) {
  return status ? message.trim() : "The scheduler does not answer.";
}
