/** The edge share of a workload over time, against its promise. */

import { html } from "./vendor/htm-preact.js";

const [WIDTH, HEIGHT] = [120, 30];

/** Until `at`, as the film's history has it. */
export function Trend({ name, row, film: { begins, history }, at, colour }) {
  const there = (history.shares.get(name) ?? []).filter((point) => point.at <= at);
  const x = (moment) => (WIDTH * Math.max(0, moment - begins)) / Math.max(1, at - begins);
  const y = (part) => 2 + (HEIGHT - 4) * (1 - part);
  const line = (value) => there.map((point, index) => {
    const to = there[index + 1]?.at ?? at;
    const height = y(value(point)).toFixed(1);
    return `${index ? "L" : "M"}${x(point.at).toFixed(1)} ${height}H${x(to).toFixed(1)}`;
  }).join("");
  return html`
    <svg class="trend" viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img"
      aria-label=${`over time; now ${row.edge} of ${row.total} at the edge`}>
      <path class="promise" d=${line(({ promise }) => promise)} />
      <path stroke=${colour} d=${line(({ edge, total }) => edge / (total || 1))} />
    </svg>`;
}
