/** Moves: those under way with their step, those that somebody is to approve, and the last ones. */

import { Items, Name, Part, standingBy } from "./lists.js";
import { clock, lasting } from "./times.js";
import { html, useMemo } from "./vendor/htm-preact.js";

const ENDED = { completed: "good", "taken back": "warn", failed: "bad", dropped: "soft" };

/** Those under way, that wait for their turn, that are proposed, and the others, the last first. */
function sorted(moves) {
  const { moving = [], planned = [], proposed = [], over = [] } = Object.groupBy(
    moves, ([, { state }]) => (state in ENDED ? "over" : state),
  );
  moving.sort(([, one], [, other]) => (one.began || one.at) - (other.began || other.at));
  over.sort(([, one], [, other]) => (other.ended || other.at) - (one.ended || one.at));
  return { moving, planned, proposed, over };
}

export function Moves({ tables, at, state, of, set }) {
  const { moving, planned, proposed, over } = useMemo(() => sorted(tables.moves), [tables.moves]);
  const proposal = tables.status.get("now")?.proposal;
  const some = (items, first, title = null) => items.length > 0 && html`
    ${title && html`<h3>${title}</h3>`}
    <${Items} items=${items} first=${first}>${([id, row]) => html`
      <${Move} key=${id} ...${{ id, row, at, state, set }} />`}<//>`;
  return html`
    <${Part} of=${of} name="moves" title="Moves"
      note=${moving.length ? `${moving.length} under way` : ""}>
      ${some(moving, 8)}
      ${some(planned, 4, "Wait for their turn")}
      ${some(proposed, 8, proposal ? html`Proposed; to have them: <code>kubedsm approve${" "}
        ${proposal}</code>` : "Proposed")}
      ${some(over, 3, moving.length || planned.length ? "The last ones" : null)}
      ${!tables.moves.size && html`<p class="soft">${standingBy(tables)
        || `None yet: pods are moved once a promise would be kept better, by more than the move
        costs.`}</p>`}
    <//>`;
}

function Move({ id, row, at, state, set }) {
  return html`
    <li>
      <${Name} kind="move" name=${id} ...${{ state, set }}>${row.pod}<//>
      ${" "}<span class="way soft">${row.source || "?"} → ${row.target}</span>
      ${row.state === "moving" && html`<${Step} ...${{ row, at }} />`}
      ${row.state in ENDED && html`<p><b class=${ENDED[row.state]}>${row.state}</b>
        ${row.ended > 0 && html` <span class="soft">at ${clock(row.ended)}</span>`}
        ${row.reason && `: ${row.reason}`}${row.helped && `; ${row.helped}`}</p>`}
      ${row.purpose && html`<p class="soft">${row.purpose}</p>`}
    </li>`;
}

/** What is waited for now, and how far it is. */
function Step({ row: { step, since, done = 0, steps = 0 }, at }) {
  const over = `${done} of ${steps} steps over`;
  return html`
    <p class="step">
      <span class="steps" role="img" aria-label=${over} title=${over}>
        ${Array.from({ length: steps }, (_, index) => html`
          <i class=${index < done ? "over" : index === done ? "now" : ""} />`)}</span>
      <span>${step}${since && html`
        <span class="soft figures">, ${lasting(Math.max(0, at - since))}</span>`}</span>
    </p>`;
}
