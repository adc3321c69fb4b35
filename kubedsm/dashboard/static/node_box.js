/** Box of one node: its name and state, and its pods as parts of its scarcest resource. */

import { fitting, ownName, percent } from "./formats.js";
import { html, useMemo } from "./vendor/htm-preact.js";

const RESOURCES = ["cpu", "memory", "pods"];
/** Part of a pod's share of the node that a pod without requests is drawn with. */
const SLIVER = 0.25;
/** Square pixels per pod from which pods are drawn one by one. */
const ROOMY = 90;
/** Size in pixels of a box from which its pods are drawn; height of its heading. */
const [LEAST, HEAD] = [{ width: 52, height: 40 }, 16];
/** Pixels: width of a letter, and of a service's letter; height of a service's name. */
const [LETTER, POD_LETTER, NAMED] = [6.1, 5.6, 14];
/** Fewest letters of a service's name that say something. */
const FEWEST = 5;
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

/** Requested parts of the cpu and memory of several nodes; reserved capacity does not count. */
export function requestedOf(nodes, podsOf) {
  const sum = { cpu: 0, memory: 0, ofCpu: 0, ofMemory: 0 };
  for (const { name, row } of nodes) {
    const parts = requested(row, podsOf(name).filter(([, { state }]) => state !== "held"));
    sum.cpu += parts.cpu * row.cpu;
    sum.memory += parts.memory * row.memory;
    sum.ofCpu += row.cpu;
    sum.ofMemory += row.memory;
  }
  return { cpu: sum.cpu / (sum.ofCpu || 1), memory: sum.memory / (sum.ofMemory || 1) };
}

/**
 * Utilisation of a node: its scarcest resource, by requests or by measured use, the requested part
 * of the resource, and the measured part if known. Reserved capacity does not count: the pods come
 * when others have gone.
 */
export function utilisation(row, pods) {
  const parts = requested(row, pods.filter(([, { state }]) => state !== "held"));
  const used = { cpu: row.cpuUsed, memory: row.memoryUsed };
  const fullness = (one) => Math.max(parts[one], used[one] ?? 0);
  const resource = RESOURCES.reduce((one, other) => (fullness(other) > fullness(one) ? other : one));
  return { resource, part: parts[resource], used: used[resource] };
}

/**
 * `px`: pixels of the unit. `forms`: shorter and shorter forms of the name.
 * `chosen`: what is chosen on this node. `lit`: highlighted workloads, if any. `found`: the name
 * matches the search.
 */
export function NodeBox(box) {
  return useMemo(() => draw(box), Object.values(box));
}

function draw({ name, forms, row, pods, width, height, px, chosen, lit, found, colour }) {
  const { state = "", cordoned, tier, site } = row;
  const { resource, part, used } = utilisation(row, pods);
  const [w, h] = [width * px, height * px];
  const small = w < LEAST.width || h < LEAST.height;
  const label = [
    name, tier ?? "not ours", site && `site ${site}`, state,
    cordoned && state !== "cordoned" && "cordoned", `${pods.length} pods`,
    `${percent(part)} of ${resource} requested`, used != null && `${percent(used)} used`,
  ];
  const classes = [
    "node", small && "small", found && "found", chosen?.kind === "node" && "chosen",
    chosen?.kind === "pod" && "holds",
  ];
  return html`
    <div class=${classes.filter(Boolean).join(" ")} role="button" tabindex="-1" data-node=${name}
      data-state=${state || undefined} aria-label=${label.filter(Boolean).join(", ")}
      style=${{ "--width": width, ...(small ? fill(row, pods, lit, colour) : {}) }}>
      ${px > 0 && small && h >= HEAD && html`
        <span class="name">${fitting(forms, Math.floor((w - 3) / LETTER))}</span>`}
      ${px > 0 && !small && html`
        <${Heading} ...${{ forms, state, w, h, filled: `${resource} ${percent(part)}` }} />
        <${Pods} ...${{ row, pods, resource, w, h, chosen, lit, colour }} />
        ${used != null && html`
          <i class="load" style=${{ "--used": percent(Math.min(1, used)) }} />`}`}
    </div>`;
}

/**
 * Style of a node too small for its pods: the filled part, and within it the part of the
 * highlighted workloads.
 */
export function fill(row, pods, lit, colour) {
  const { resource, part } = utilisation(row, pods);
  if (!lit) return { "--full": percent(Math.min(1, part)) };
  const own = pods.filter(([, { workload, state }]) => lit.has(workload) && state !== "held");
  return {
    "--full": percent(Math.min(1, part)),
    "--lit": percent(Math.min(1, requested(row, own)[resource])),
    "--colour": own.length ? colour(own[0][1].workload) : undefined,
  };
}

function Heading({ forms, state, w, h, filled }) {
  const letters = Math.floor((w - 8 - (state ? 14 : 0)) / LETTER);
  const { length } = forms[1] ?? forms[0];
  const roomy = letters >= Math.min(length, 12) + filled.length + 1;
  const own = roomy ? letters - filled.length - 1 : letters;
  const worded = state && h >= 60 && w >= state.length * LETTER + 4;
  return html`
    <p class="head">
      ${state && html`<svg class="mark" viewBox="0 0 12 12"><path d=${MARKS[state]} /></svg>`}
      <span class="name">${fitting(forms, own)}</span>
      ${roomy && html`<span class="fullness">${filled}</span>`}
    </p>
    ${worded && html`<span class="word">${state}</span>`}`;
}

function Pods({ row, pods, resource, w, h, chosen, lit, colour }) {
  const detailed = w * h >= ROOMY * pods.length;
  const groups = Map.groupBy(pods, ([, pod]) => (pod.scheduler ? "" : pod.workload));
  return html`
    <div class="pods">${[...groups].map(([workload, own]) => html`
      <${Group} key=${workload} ...${{
        workload, own, row, resource, w, h: h - HEAD, detailed, chosen, lit,
        colour: colour(workload) }} />`)}</div>`;
}

/** Pods of one workload, one above the other; a single shape where they would be too small. */
function Group({ workload, own, row, resource, w, h, detailed, chosen, lit, colour }) {
  const least = SLIVER / Math.max(row.pods, 1);
  const size = ([, pod]) => Math.max(least,
    row[resource] ? (resource === "pods" ? 1 : pod[resource] ?? 0) / row[resource] : 0);
  const sizes = own.map(size);
  const sum = sizes.reduce((one, other) => one + other);
  const share = detailed ? "" : "pod share";
  const letters = Math.floor((sum * w - 5) / POD_LETTER);
  const name = ownName(workload || own[0][0]);
  const named = detailed && h >= NAMED && letters >= Math.min(FEWEST, name.length);
  return html`
    <div class=${`group ${lit?.has(workload) ? "chosen" : lit ? "dim" : ""} ${share}`}
      data-workload=${workload} style=${{ flexBasis: `${100 * sum}%`, "--colour": colour }}>
      ${named && html`<span>${fitting([name], letters)}</span>`}
      ${detailed && own.map(([key, { state, move }], index) => {
        const held = state === "held";
        const marked = chosen?.kind === "pod" && chosen.key === key ? "chosen" : "";
        return html`
          <div key=${key} class=${`pod ${state.replace(" ", "-")} ${marked}`}
            style=${{ flexGrow: 1000 * sizes[index] }} data-pod=${held ? undefined : key}
            data-move=${held ? move : undefined} />`;
      })}
    </div>`;
}
