/** Rendered explanations: sentences with links to pods, nodes and workloads, and tables. */

import { clock } from "./formats.js";
import { html, useEffect, useState } from "./vendor/htm-preact.js";

/** Sentences; a click on a link calls `go` with its target: { kind, key }. */
export function Lines({ lines = [], go }) {
  return lines.map((words) => html`<p>${linked(words, go)}</p>`);
}

function linked(words, go) {
  return words.map((word) => (typeof word === "string" ? word : html`
    <button class="name" onClick=${() => go(word)}>${word.text || clock(word.key)}</button>`));
}

/** Result of `useAnswer`: the explanation, or its error. */
export function Answered({ answer, error, busy = !answer && !error, go }) {
  return html`
    <div aria-live="polite" aria-busy=${busy}>
      ${error ? html`<p class="soft">${error}</p>` : answer && html`
        <${Lines} lines=${answer.lines} go=${go} />
        ${answer.sections?.map((section) => html`
          <${Section} key=${section.title} ...${section} go=${go} />`)}`}
    </div>`;
}

/** Section of an explanation; a folded section is rendered once opened. */
function Section({ title, folded, lines, table, code, go }) {
  const [open, setOpen] = useState(!folded);
  const body = open && html`
    <${Lines} lines=${lines} go=${go} />
    ${table && html`<${Table} title=${title} headings=${table.headings}>${table.rows.map((row) =>
      html`<tr>${row.map((words) => html`<td>${linked(words, go)}</td>`)}</tr>`)}<//>`}
    ${code && html`<pre tabindex="0">${code}</pre>`}`;
  return folded ? html`
    <details onToggle=${({ target }) => setOpen(target.open)}>
      <summary>${title}</summary>${body}</details>`
    : html`<section><h3>${title}</h3>${body}</section>`;
}

/** Table of these rows; a table wider than the page scrolls by itself. */
export function Table({ title, headings, children }) {
  return html`
    <div class="wide" tabindex="0" role="group" aria-label=${title}><table>
      <thead><tr>${headings.map((heading) => html`<th scope="col">${heading}</th>`)}</tr></thead>
      <tbody>${children}</tbody>
    </table></div>`;
}

/**
 * Request the explanation at a path; return { answer, error, asking }. A new `fresh` repeats the
 * request. The last response stays meanwhile, unless `about` has changed. `pause`: seconds before
 * a request, as the question may change again. A busy server gets the request again, after its
 * Retry-After. Without `ask` there is no request.
 */
export function useAnswer(ask, path, about, fresh, pause) {
  const [said, setSaid] = useState({});
  useEffect(() => {
    if (!ask) return undefined;
    const stopping = new AbortController();
    const told = (more) => !stopping.signal.aborted && setSaid({ about, ...more });
    setSaid((before) => ({ ...(before.about === about ? before : { about }), asking: true }));
    let waiting;
    const later = (seconds) => { waiting = setTimeout(request, 1000 * seconds); };
    function request() {
      ask(path, stopping.signal).then((answer) => answer.json()).then(
        (answer) => told({ answer }),
        (error) => {
          told({ error: inWords(error), asking: Boolean(error.retry) });
          if (error.retry && !stopping.signal.aborted) later(error.retry);
        },
      );
    }
    later(pause);
    return () => {
      clearTimeout(waiting);
      stopping.abort();
    };
  }, [ask, path, fresh]);
  return said.about === about ? said : { asking: true };
}

function inWords({ status, message }) {
  return status ? message.trim() : "The scheduler does not answer.";
}
