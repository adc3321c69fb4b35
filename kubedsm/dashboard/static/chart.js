/** Chart of a workload's edge share over time, against its target: axes, values and a legend. */

import { clock, percent } from "./formats.js";
import { html } from "./vendor/htm-preact.js";

const [WIDTH, HEIGHT] = [600, 100];

/** Return the points of a workload up to a moment; each holds until the next. */
function pointsOf({ history }, name, at) {
  return (history.shares.get(name) ?? []).filter((point) => point.at <= at);
}

/**
 * Draw the share of `name` from the beginning of the recording to `at`. `times`: whether the time
 * axis has labels; charts below each other share the labels of the last.
 */
export function Chart({ name, row, recording, at, colour, times = false }) {
  const { begins } = recording;
  const points = pointsOf(recording, name, at);
  const x = (moment) => (WIDTH * Math.max(0, moment - begins)) / Math.max(1, at - begins);
  // Without pods, or without data, there is no share.
  const spans = points.map((point, index) => ({
    ...point, joined: Boolean(points[index - 1]?.total), from: x(point.at).toFixed(1),
    to: x(points[index + 1]?.at ?? at).toFixed(1),
  })).filter(({ total }) => total);
  const height = (value) => (HEIGHT * (1 - value)).toFixed(1);
  const line = (value) => spans.map((span) => (
    `${span.joined ? "L" : "M"}${span.from} ${height(value(span))}H${span.to}`)).join("");
  const part = ({ edge, total }) => edge / total;
  const area = spans.map((span) => (
    `M${span.from} ${HEIGHT}V${height(part(span))}H${span.to}V${HEIGHT}Z`)).join("");
  const { edge, total, target } = row;
  const now = edge / (total || 1);
  const wanted = target === undefined ? "" : `, target ${percent(target)}`;
  return html`
    <div class="chart" role="img" aria-label=${`${percent(now)} at the edge${wanted}`}>
      <span class="axis top">100%</span><span class="axis bottom">0</span>
      <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none">
        <path class="grid" d=${`M0 0H${WIDTH}M0 50H${WIDTH}M0 100H${WIDTH}`} />
        <path class="area" fill=${colour} d=${area} />
        <path class="line" stroke=${colour} d=${line(part)} />
        ${target !== undefined && html`<path class="target" d=${line((span) => span.target)} />`}
      </svg>
      <b class="value" style=${{ top: percent(1 - now) }}>${percent(now)}</b>
      ${times && html`<span class="times"><span>${clock(begins)}</span><span>${clock(at)}</span></span>`}
    </div>`;
}

/** Explain the marks of the charts. `targets`: whether any chart has a target. */
export function ChartLegend({ targets }) {
  return html`
    <p class="chart-legend soft"><i /> share of pods at the edge${" "}
      ${targets && html`<i class="target" /> target`}</p>`;
}
