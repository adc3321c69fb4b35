/** Picture of the cluster: nodes by tier and site, their pods, and the migrations between them. */

import { Arcs } from "./arcs.js";
import { title as describe } from "./descriptions.js";
import { matches } from "./find.js";
import { distinct, fitting, ownName, percent } from "./formats.js";
import { formatChanges } from "./hypothesis.js";
import { NodeBox, requestedOf } from "./node_box.js";
import { colourOf, OTHERS, ranked } from "./palette.js";
import { FEW, SiteGrid } from "./sites.js";
import {
  html, useEffect, useLayoutEffect, useMemo, useRef, useState,
} from "./vendor/htm-preact.js";

const GIB = 2 ** 30;
/** Memory that counts as one core: about the ratio of machines that are sold. */
const GIB_PER_CORE = 4;
/** Width of a tier's mean node, divided by its height. */
const ASPECT = 1.35;
const TIERS = [["edge", "Edge"], ["cloud", "Cloud"], [null, "Not ours"]];
const ARROWS = {
  ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1],
};
/** Letters of a service in the legend. */
const LONG = 28;
/** Largest zoom; milliseconds without a change after which labels get their final size. */
const [MOST, REST] = [40, 250];
/** Nodes that are drawn again in a frame. */
const AT_ONCE = 24;
/** Width in pixels at which a chosen node is shown; pixels that a pointer moves before it drags. */
const [LEGIBLE, DRAG] = [120, 5];
const byName = new Intl.Collator("en", { numeric: true }).compare;

export function Cluster({ tables, at, title, imagines, state: { chosen, site, filter }, set }) {
  const view = useRef(null);
  const picture = useRef(null);
  const pods = usePodsByNode(tables);
  const areas = useMemo(() => groupNodes(tables.nodes, site), [tables.nodes, site]);
  const unit = useUnit(view, picture, JSON.stringify(areas.map(({ sites }) => sites.map(
    ([name, nodes]) => [name, nodes.map(({ name: node, width }) => [node, width])]))),
    areas.reduce((sum, { total }) => sum + total, 0));
  const zoom = useZoom(view, picture);
  const names = useMemo(() => ranked(tables.workloads), [tables.workloads]).join();
  const all = useMemo(() => (names ? names.split(",") : NONE), [names]);
  const colour = useMemo(() => (workload) => colourOf(workload, all), [all]);
  const heading = `cluster-${title ?? ""}`.replace(/\W+/g, "-");
  const demand = tables.status?.get("now")?.sites ?? NONE;
  const node = chosen?.kind === "node" ? chosen.key : tables.pods.get(chosen?.key)?.node;
  const { lit, found } = useHighlight(tables, chosen, filter, names);
  useEffect(() => {
    const row = tables.nodes.get(node);
    if (site && row && (row.site ?? "") !== site) set({ site: row.site ?? "" });
    else zoom.reveal(node);
  }, [chosen]);
  useEffect(() => zoom.to(1), [site]);

  function pressed(event) {
    const { key, target, ctrlKey, metaKey, altKey } = event;
    if (ctrlKey || metaKey || altKey) return;
    if (ARROWS[key]) nearest(picture.current, target, ARROWS[key])?.focus();
    else if (key === "Enter" || key === " ") choose(event);
    else if (key === "+" || key === "=") zoom.by(1.5);
    else if (key === "-") zoom.by(1 / 1.5);
    else if (key === "0") zoom.to(1);
    else if (key === "Backspace" && site) set({ site: "" });
    else return;
    event.preventDefault();
  }

  function choose({ target }) {
    if (zoom.dragged()) return;
    const chosenThing = thing(target);
    if (chosenThing?.kind === "site") set({ site: chosenThing.key });
    else if (chosenThing) set({ chosen: chosenThing });
  }

  /** Set a tooltip when the pointer first reaches an element: thousands would cost time. */
  function point({ target }) {
    const pointed = thing(target);
    if (pointed && pointed.kind !== "site") target.title = describe(pointed, tables);
  }

  const measured = [...tables.nodes.values()].some((row) => row.cpuUsed != null);
  return html`
    <section class="cluster" aria-labelledby=${heading}>
      <h2 id=${heading}>${title ?? "Nodes"}</h2>
      <div class="zooms" role="group" aria-label="Zoom">
        ${site && html`
          <button onClick=${() => set({ site: "" })}>‹ All sites</button>
          ${imagines && html`<button onClick=${() => set({ chosen: {
            kind: "what-if", key: formatChanges([{ change: "lose-site", name: site }]) } })}>
            What if it is lost?</button>`}`}
        <button aria-label="Closer" onClick=${() => zoom.by(1.6)}>+</button>
        <button aria-label="Further" onClick=${() => zoom.by(1 / 1.6)}>−</button>
        <button onClick=${() => zoom.to(1)}>All</button>
      </div>
      <div class="view" ref=${view} ...${zoom.handlers}>
        <div class="picture" ref=${picture} role="group" tabindex="0" onKeyDown=${pressed}
          onClick=${choose} onPointerOver=${point}
          aria-label="Nodes; arrow keys go from one to the next">
          ${areas.map((area) => html`
            <${Area} key=${area.name} ...${{
              ...area, pods, chosen, node, colour, demand, lit, found, unit, zoom }} />`)}
          <${Arcs} moves=${tables.moves} ...${{ picture, chosen, at, scale: zoom.scale }} />
        </div>
      </div>
      <${Legend} ...${{ measured, all, colour, chosen, set }} />
    </section>`;
}

/**
 * Highlighted workloads, null for none, and nodes with a matching name: by the chosen workload, else
 * by the text of the search.
 */
function useHighlight(tables, chosen, filter, names) {
  const key = chosen?.kind === "workload" ? chosen.key : null;
  return useMemo(() => {
    if (key) return { lit: new Set([key]), found: NOTHING };
    const found = matches(tables, filter);
    return { lit: found.workloads.size ? found.workloads : null, found: found.nodes };
  }, [key, filter, names, filter && tables.pods, filter && tables.nodes]);
}

const NOTHING = new Set();

function Area({ name, total, height, sites, tiled, forms, pods, unit, zoom, chosen, node, lit, found,
  colour, demand }) {
  const pixels = (each) => unit * (zoom.drawn.get(each) ?? 1);
  return html`
    <div class="area ${name.toLowerCase()} ${tiled ? "tiled" : ""}"
      style=${{ flexGrow: total, "--row": height }}>
      <h3>${name} <span>${describeRequested(sites, pods)}</span></h3>
      ${tiled ? html`<${SiteGrid} ...${{ sites, pods, node, lit, found, colour, demand }} />` : html`
      <div class="sites" style=${{ "--columns": Math.min(3, Math.ceil(sites.length / 3)) }}>
        ${sites.map(([site, nodes]) => html`
        <div class=${site ? "site" : ""} key=${site}>
          ${site && html`<h4><button class="name" data-site=${site} title="Zoom into the site">
            ${site}</button>${demandAt(demand, site)}</h4>`}
          <div class="nodes">${nodes.map((each) => html`
            <${NodeBox} key=${each.name} ...${{ ...each, height, lit, colour }}
              px=${pixels(each.name)}
              forms=${forms.get(each.name)} found=${found.has(each.name)}
              pods=${pods.get(each.name) ?? NONE}
              chosen=${node === each.name ? chosen : null} />`)}</div>
        </div>`)}</div>`}
    </div>`;
}

const NONE = [];

/** Describe the part of a site's demand that replicas there serve; empty without demand. */
function demandAt(demand, site) {
  const row = demand.find((each) => each.site === site);
  if (!row) return "";
  const missing = row.missing ? `, ${row.missing} missing` : "";
  return html` <span title="Demand of its users served there, of its target">
    ${percent(row.reached)} of ${percent(row.target)} served${missing}</span>`;
}

/** Describe the share of a tier's capacity that is requested. */
function describeRequested(sites, pods) {
  const nodes = sites.flatMap(([, some]) => some);
  const { cpu, memory } = requestedOf(nodes, (name) => pods.get(name) ?? NONE);
  return `${nodes.length} ${nodes.length === 1 ? "node" : "nodes"}, ${
    percent(cpu)} of cpu and ${percent(memory)} of memory requested`;
}

function capacity({ cpu, memory }) {
  return cpu / 1000 + memory / GIB / GIB_PER_CORE;
}

/**
 * Tiers that have nodes, with their nodes by site; only the chosen site, if any. The area of a
 * node's box is its capacity, on one scale for all: the boxes of a tier have one height, and `width`
 * is relative to the unit. `tiled`: too many sites to draw their nodes.
 */
function groupNodes(nodes, chosenSite) {
  return TIERS.map(([tier, name]) => {
    const own = [...nodes].filter(([, row]) => (row.tier ?? null) === tier
      && (!chosenSite || (tier === "edge" && row.site === chosenSite)))
      .map(([key, row]) => ({ name: key, row, size: capacity(row) }))
      .sort((one, other) => byName(one.name, other.name));
    const total = own.reduce((sum, { size }) => sum + size, 0);
    const height = Math.sqrt(total / own.length / ASPECT);
    for (const node of own) node.width = node.size / height;
    const sites = [...Map.groupBy(own, ({ row }) => row.site ?? "")];
    const forms = new Map(sites.flatMap(([, some]) => [
      ...distinct((some.length > 1 ? some : own).map((node) => node.name))]));
    return {
      name, total, height, forms, tiled: sites.length > FEW,
      sites: sites.sort(([one], [other]) => byName(one, other)),
    };
  }).filter(({ sites }) => sites.length);
}

/**
 * Pods by node: [key, row] of the pods there, and of the pods that capacity is reserved for, whose
 * state is "held". A list without a change is the same object.
 */
function usePodsByNode({ pods, moves }) {
  const before = useRef(new Map());
  return useMemo(() => {
    const held = [];
    for (const [move, { state, pod, replacement, target }] of moves) {
      const row = pods.get(pod);
      if (!row || !["moving", "planned"].includes(state)) continue;
      if (pods.get(replacement)?.node === target) continue;
      held.push([`move ${move}`, { ...row, node: target, state: "held", move }]);
    }
    for (const [key, row] of pods) {
      if (row.roomOn && !row.node) held.push([key, { ...row, node: row.roomOn, state: "held" }]);
    }
    const found = Map.groupBy([...pods, ...held], ([, { node }]) => node);
    for (const [node, list] of found) {
      const old = before.current.get(node);
      if (old?.length === list.length && old.every(([, row], i) => row === list[i][1])) {
        found.set(node, old);
      }
    }
    before.current = found;
    return found;
  }, [pods, moves]);
}

/**
 * Pixels of the unit: the largest with which everything fits into the view. `total`: square units of
 * all boxes. Until other boxes are measured, the unit is at most what their sum allows: drawn too
 * large, each of thousands of pods would be drawn for nothing.
 */
function useUnit(view, picture, key, total) {
  const [{ unit, square }, setUnit] = useState({ unit: 0, square: 0 });
  useLayoutEffect(() => {
    const observer = new ResizeObserver(() => {
      const { clientWidth, clientHeight } = view.current;
      const { style, classList } = picture.current;
      classList.add("fitting");
      let [low, high] = [0, Math.max(clientWidth, clientHeight)];
      while (high - low > 0.2) {
        const middle = (low + high) / 2;
        style.setProperty("--unit", `${middle}px`);
        const { scrollWidth, scrollHeight } = picture.current;
        if (scrollWidth <= clientWidth && scrollHeight <= clientHeight) low = middle;
        else high = middle;
      }
      style.setProperty("--unit", `${low}px`);
      classList.remove("fitting");
      setUnit({ unit: low, square: clientWidth * clientHeight });
    });
    observer.observe(view.current);
    return () => observer.disconnect();
  }, [key]);
  return Math.min(unit, Math.sqrt(square / total) || 0);
}

/**
 * Zoom by wheel and keys; the view scrolls. Labels and pods are drawn again once the zoom rests, a
 * few nodes a frame, and only of nodes in and around the view: `drawn` has their scale.
 */
function useZoom(view, picture) {
  const [{ scale, drawn }, rest] = useState({ scale: 1, drawn: new Map() });
  const now = useRef(
    { scale: 1, drawn, resting: 0, drawing: 0, from: null, dragged: false }).current;

  function to(wanted, { clientX, clientY } = {}) {
    const { left, top, width, height } = view.current.getBoundingClientRect();
    const x = clientX === undefined ? width / 2 : clientX - left;
    const y = clientY === undefined ? height / 2 : clientY - top;
    const { scrollLeft, scrollTop } = view.current;
    const next = Math.min(MOST, Math.max(1, wanted));
    const factor = next / now.scale;
    now.scale = next;
    // The compositor scales what is painted; once the zoom rests, that is painted again.
    Object.assign(picture.current.style, { willChange: "transform", transform: `scale(${next})` });
    view.current.scrollTo((scrollLeft + x) * factor - x, (scrollTop + y) * factor - y);
    restSoon();
  }

  function restSoon() {
    clearTimeout(now.resting);
    cancelAnimationFrame(now.drawing);
    now.resting = setTimeout(() => {
      if (!picture.current) return;
      picture.current.style.willChange = "";
      picture.current.style.setProperty("--px", `${1 / now.scale}px`);
      drawSome(findStale());
    }, REST);
  }

  /** Draw a few of the nodes, [name, scale], and the others in the next frames. */
  function drawSome(stale) {
    now.drawn = new Map([...now.drawn, ...stale.slice(0, AT_ONCE)]);
    rest({ scale: now.scale, drawn: now.drawn });
    const others = stale.slice(AT_ONCE);
    if (others.length) now.drawing = requestAnimationFrame(() => drawSome(others));
  }

  /** Nodes to be drawn at another scale, [name, scale]: the nearest to the middle first. */
  function findStale() {
    const { scrollLeft, scrollTop, clientWidth, clientHeight } = view.current;
    const [width, height] = [clientWidth / now.scale, clientHeight / now.scale];
    const [x, y] = [scrollLeft / now.scale + width / 2, scrollTop / now.scale + height / 2];
    const apart = (box) => Math.max(
      Math.abs(box.offsetLeft + box.offsetWidth / 2 - x) / (width + box.offsetWidth / 2),
      Math.abs(box.offsetTop + box.offsetHeight / 2 - y) / (height + box.offsetHeight / 2));
    return [...picture.current.querySelectorAll(".node")]
      .map((box) => [box.dataset.node, apart(box)])
      .sort(([, one], [, other]) => one - other)
      .map(([name, distance]) => [name, distance < 1 ? now.scale : 1])
      .filter(([name, wanted]) => (now.drawn.get(name) ?? 1) !== wanted);
  }

  return {
    scale,
    drawn,
    to,
    by: (factor, point) => to(now.scale * factor, point),
    dragged: () => now.dragged,
    reveal(name) {
      const box = name && picture.current.querySelector(`[data-node="${CSS.escape(name)}"]`);
      if (!box) return;
      const least = Math.min(LEGIBLE, view.current.clientWidth / 3);
      to(Math.max(now.scale, least / box.offsetWidth));
      box.scrollIntoView({ block: "nearest", inline: "nearest" });
    },
    handlers: {
      onScroll: () => now.scale > 1 && restSoon(),
      onWheel(event) {
        if (now.scale === 1 && event.deltaY > 0) return;
        event.preventDefault();
        const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
        to(now.scale * Math.exp(-event.deltaY * lines * (event.ctrlKey ? 0.01 : 0.002)), event);
      },
      onPointerDown({ clientX, clientY }) {
        Object.assign(now, { from: [clientX, clientY], dragged: false });
      },
      onPointerMove({ buttons, pointerType, clientX, clientY, movementX, movementY }) {
        if (buttons !== 1 || pointerType !== "mouse" || !now.from) return;
        now.dragged ||= Math.hypot(clientX - now.from[0], clientY - now.from[1]) > DRAG;
        if (now.dragged) view.current.scrollBy(-movementX, -movementY);
      },
    },
  };
}

/** Kind and key of what an element stands for; null for nothing. */
function thing(element) {
  const found = element.closest("[data-pod], [data-move], [data-node], [data-site]");
  const kind = ["pod", "move", "node", "site"].find((one) => found?.dataset[one]);
  return kind ? { kind, key: found.dataset[kind] } : null;
}

/** Return the node or site nearest to the focused one in a direction; without one, the first. */
function nearest(picture, focused, [dx, dy]) {
  const middle = (box) => {
    const { x, y, width, height } = box.getBoundingClientRect();
    return [x + width / 2, y + height / 2];
  };
  const boxes = [...picture.querySelectorAll(".node, .tile")];
  if (focused === picture) return boxes[0];
  const [fx, fy] = middle(focused);
  let [found, least] = [null, Infinity];
  for (const box of boxes) {
    const [x, y] = middle(box);
    const along = (x - fx) * dx + (y - fy) * dy;
    const aside = Math.abs((x - fx) * dy) + Math.abs((y - fy) * dx);
    if (along > 1 && along + 2 * aside < least) [found, least] = [box, along + 2 * aside];
  }
  return found;
}

function Legend({ measured, all, colour, chosen, set }) {
  const sample = (state, words) => html`<li><i class="pod ${state}" /> ${words}</li>`;
  const own = all.filter((name) => colour(name) !== OTHERS);
  const forms = distinct(own.map(ownName));
  return html`
    <ul class="legend" aria-label="Services by colour">
      ${own.map((name) => html`
        <li key=${name}><button class="name" aria-pressed=${String(chosen?.key === name)} title=${name}
          onClick=${() => set({ chosen: { kind: "workload", key: name } })}>
          <i class="pod" style=${{ "--colour": colour(name) }} /> ${
            fitting(forms.get(ownName(name)), LONG)}</button></li>`)}
      ${all.length > own.length && html`<li><i class="pod" style=${{ "--colour": OTHERS }} />
        ${" "}${all.length - own.length} others</li>`}
    </ul>
    <ul class="legend" aria-label="Legend">
      <li>A box is a node, as large as its capacity, and filled by the requests for its scarcest
        resource.</li>
      ${sample("ready", "ready")}
      ${sample("not-ready", "not ready")}
      ${sample("starting", "starting")}
      ${sample("leaving", "leaving")}
      ${sample("held", "reserved for a pod")}
      ${measured && html`
        <li><i class="load" style=${{ "--used": "60%" }} /> measured use of the resource</li>`}
    </ul>`;
}
