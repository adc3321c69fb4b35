/** Box of one node: its name and state, and its pods as parts of its scarcest resource. */

import { ownName, percent, shortened } from "./formats.js";
import { html, useMemo } from "./vendor/htm-preact.js";

const RESOURCES = ["cpu", "memory", "pods"];
/** Part of a pod's share of the node that a pod without requests is drawn with. */
const SLIVER = 0.25;
/** Square pixels per pod from which pods are drawn one by one; size of a node with a heading. */
const [ROOMY, HEADED] = [90, { width: 40, height: 50 }];
/** Pixels: width of a letter, and of a pod's letter; height from which a pod has a label. */
const [LETTER, POD_LETTER, NAMED] = [6.3, 5.8, 14];
/** Shape of each state's mark, in a square of 12. */
const MARKS = {
  cordoned: "M6 1A5 5 0 1 1 5.9 1ZM3.2 6H8.8",
  "not ready": "M6 1L11.3 10.8H.7ZM6 4.4V7.4M6 9V9.1",
  unreachable: "M2 6H2.1M6 6H6.1M10 6H10.1M1 2.5L11 9.5",
  partitioned: "M0 6H3.5M8.5 6H12M4.2 2.5V9.5M7.8 2.5V9.5",
  stabilising: "M6 1A5 5 0 1 1 5.9 1ZM6 3.4V6.2L8 7.6",
};

/** Requested parts of a node's cpu, memory and pods. */
export function requested(node, pods) {
  const sum = { cpu: 0, memory: 0, pods: pods.length };
  for (const [, { cpu = 0, memory = 0 }] of pods) {
    sum.cpu += cpu;
    sum.memory += memory;
  }
  return Object.fromEntries(RESOURCES.map((one) => [one, node[one] ? sum[one] / node[one] : 0]));
}

/** `px`: pixels of the unit. `chosen`: what is chosen on this node. `lit`: the chosen workload. */
export function NodeBox({ name, row, pods, width, height, px, chosen, lit, look }) {
  return useMemo(() => draw({ name, row, pods, width, height, px, chosen, lit, look }),
    [name, row, pods, width, height, px, chosen, lit, look]);
}

function draw({ name, row, pods, width, height, px, chosen, lit, look }) {
  const { state = "", cordoned, tier, site, cpuUsed, memoryUsed } = row;
  const all = requested(row, pods);
  const resource = RESOURCES.reduce((one, other) => (all[other] > all[one] ? other : one));
  // Pods with reserved capacity come when others have gone: both together may exceed the node.
  const present = requested(row, pods.filter(([, pod]) => pod.state !== "held"));
  const filled = `${resource} ${percent(present[resource])}`;
  const [w, h] = [width * px, height * px];
  const detailed = w * h >= ROOMY * pods.length;
  const groups = Map.groupBy(pods, ([, pod]) => (pod.scheduler ? "" : pod.workload));
  const letters = Math.floor((w - 10 - (state ? 14 : 0)) / LETTER);
  const roomy = letters >= Math.min(name.length, 12) + filled.length + 1;
  const title = shortened(name, roomy ? letters - filled.length - 1 : letters);
  const worded = state && h >= 60 && w >= state.length * LETTER + 4;
  const label = [
    name, tier ?? "not ours", site && `site ${site}`, state,
    cordoned && state !== "cordoned" && "cordoned",
    `${pods.length} pods`, `${percent(present[resource])} of ${resource} requested`,
  ];
  const classes = ["node", chosen?.kind === "node" && "chosen", chosen?.kind === "pod" && "holds"];
  return html`
    <div class=${classes.filter(Boolean).join(" ")} role="button" tabindex="-1" data-node=${name}
      data-state=${state || undefined} aria-label=${label.filter(Boolean).join(", ")}
      style=${{ "--width": width }}>
      ${w >= HEADED.width && h >= HEADED.height && html`
        <p class="head">
          ${state && html`<svg class="mark" viewBox="0 0 12 12"><path d=${MARKS[state]} /></svg>`}
          <span class="name">${title}</span>
          ${roomy && html`<span class="fullness">${filled}</span>`}
        </p>`}
      <div class="pods">${px > 0 && [...groups].map(([workload, own]) => html`
        <${Group} key=${workload} ...${{
          workload, own, row, resource, w, h, detailed, chosen, lit, look: look(workload) }} />`)}
      </div>
      ${[cpuUsed, memoryUsed].map((used) => used != null && html`
        <i class="load" style=${{ "--used": percent(Math.min(1, used)) }} />`)}
      ${worded && html`<span class="word">${state}</span>`}
    </div>`;
}

/** Pods of one workload, one above the other; a single shape where they would be too small. */
function Group({ workload, own, row, resource, w, h, detailed, chosen, lit, look }) {
  const least = SLIVER / Math.max(row.pods, 1);
  const size = ([, pod]) => Math.max(least,
    row[resource] ? (resource === "pods" ? 1 : pod[resource] ?? 0) / row[resource] : 0);
  const sizes = own.map(size);
  const sum = sizes.reduce((one, other) => one + other);
  const share = detailed ? "" : "pod share";
  const letters = Math.floor((sum * w - 6) / POD_LETTER);
  return html`
    <div class=${`group ${lit === workload ? "chosen" : lit ? "dim" : ""} ${share}`}
      data-workload=${workload} style=${{ flexBasis: `${100 * sum}%`, "--colour": look.colour }}>
      ${detailed && own.map(([key, { state, move }], index) => {
        const held = state === "held";
        const high = (sizes[index] / sum) * (h - 24) >= NAMED;
        const text = high && !held
          && [key, workload].map(ownName).find((each) => each && each.length <= letters);
        const marked = chosen?.kind === "pod" && chosen.key === key ? "chosen" : "";
        return html`
          <div key=${key} class=${`pod ${state.replace(" ", "-")} hatch${look.pattern} ${marked}`}
            style=${{ flexGrow: 1000 * sizes[index] }} data-pod=${held ? undefined : key}
            data-move=${held ? move : undefined}>${text && html`<span>${text}</span>`}</div>`;
      })}
    </div>`;
}
