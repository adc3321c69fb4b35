/**
 * The picture of the cluster: takes tables in, and redraws what is different in them.
 *
 * Rows are the same objects as long as nothing has changed about them, so two tables are compared
 * by identity. What takes long, as many nodes drawn at once, is spread over frames.
 */

import { Arcs, arched } from "./arcs.js";
import { differences } from "./comparison.js";
import { Layout, room } from "./layout.js";
import { NodeBox } from "./nodes.js";
import { looks } from "./palette.js";
import { Fills, add, change, shortened } from "./svg.js";
import { percent } from "./formats.js";
import { Zoom } from "./zoom.js";

/** Milliseconds of a frame in which nodes are drawn that only look different at another scale. */
const SLICE = 5;
/** So many pixels wide is a node shown in which something was chosen. */
const LEGIBLE = 120;
const WAITING = new Set(["waiting", "gated"]);
const NAMES = { edge: "Edge", cloud: "Cloud" };
const NO_TABLE = new Map();
const ARROWS = {
  ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1],
};

export class Picture {
  #tables = { nodes: NO_TABLE, pods: NO_TABLE, workloads: NO_TABLE, moves: NO_TABLE };
  #layout = new Layout();
  #boxes = new Map();
  #held = new Map();
  #chosen = null;
  #compared = null;
  #fills;
  #pods = new Map();
  #areas = new Map();
  #focused = null;
  #later = 0;
  #cell = 0;
  #at = 0;
  #size = [0, 0];

  /** Draws into `host`; `choose` hears what is chosen: { kind, key }. */
  constructor(host, choose) {
    this.host = host;
    this.choose = choose;
    this.svg = add(host, "svg", {
      class: "picture", role: "group", "aria-label": "Nodes; arrow keys go from one to the next",
    });
    this.#fills = new Fills(this.svg);
    [this.areas, this.nodes] = [add(this.svg, "g"), add(this.svg, "g")];
    this.arcs = new Arcs(add(this.svg, "g"));
    this.zoom = new Zoom(host, this.svg, () => this.#rested());
    this.svg.addEventListener("click", (event) => this.#clicked(event));
    this.svg.addEventListener("keydown", (event) => this.#pressed(event));
    this.svg.addEventListener("focusin", (event) => this.#focusedOn(event));
    this.sizes = new ResizeObserver(() => this.#resized());
    this.sizes.observe(host);
    this.#resized();
  }

  close() {
    cancelAnimationFrame(this.#later);
    this.sizes.disconnect();
    this.zoom.close();
    this.svg.remove();
  }

  /**
   * Show these tables, those of the moment `at`, with that chosen; marked is what is different from
   * the `compared` ones.
   */
  show(tables, chosen, compared, at) {
    this.#at = at;
    const same = chosen === this.#chosen && compared === this.#compared;
    this.#compared = compared;
    const before = this.#tables;
    this.#tables = tables;
    const dirty = new Set();
    if (tables.workloads !== before.workloads) this.#recolour(before, dirty);
    if (tables.pods !== before.pods) this.#sortPods(before.pods, dirty);
    if (tables.pods !== before.pods || tables.moves !== before.moves) this.#hold(dirty);
    if (tables.nodes !== before.nodes) {
      for (const [name, row] of tables.nodes) if (before.nodes.get(name) !== row) dirty.add(name);
      for (const name of before.nodes.keys()) if (!tables.nodes.has(name)) dirty.add(name);
    }
    this.#chosen = chosen;
    this.#draw(dirty);
    if (same && !dirty.size && (!compared || tables === before)) return;
    if (!same) this.#reveal();
    this.#mark();
  }

  // What is where

  #sortPods(before, dirty) {
    const { pods } = this.#tables;
    for (const [key, row] of pods) {
      const old = before.get(key);
      if (old === row) continue;
      if (old && old.node !== row.node) this.#take(key, old, dirty);
      if (row.node) this.#give(row.node, key, row, dirty);
    }
    for (const [key, old] of before) if (!pods.has(key)) this.#take(key, old, dirty);
  }

  /** Room that is kept on a node for a pod that is not there yet. */
  #hold(dirty) {
    const { pods, moves } = this.#tables;
    const held = new Map();
    for (const [id, move] of moves) {
      if (move.state !== "moving" && move.state !== "planned") continue;
      const moved = pods.get(move.pod);
      if (!moved || pods.get(move.replacement)?.node === move.target) continue;
      held.set(`move ${id}`, { ...moved, node: move.target, state: "held", move: id });
    }
    for (const [key, pod] of pods) {
      if (pod.roomOn && !pod.node) {
        held.set(`room for ${key}`, { ...pod, node: pod.roomOn, state: "held" });
      }
    }
    for (const [key, row] of this.#held) if (!held.has(key)) this.#take(key, row, dirty);
    for (const [key, row] of held) {
      const old = this.#held.get(key);
      if (old?.node === row.node && old.cpu === row.cpu && old.memory === row.memory) {
        held.set(key, old);
      } else {
        this.#give(row.node, key, row, dirty);
      }
    }
    this.#held = held;
  }

  #take(key, { node }, dirty) {
    if (!node) return;
    this.#podsOf(node).delete(key);
    dirty.add(node);
  }

  #give(node, key, row, dirty) {
    this.#podsOf(node).set(key, row);
    dirty.add(node);
  }

  #podsOf(node) {
    if (!this.#pods.has(node)) this.#pods.set(node, new Map());
    return this.#pods.get(node);
  }

  #recolour(before, dirty) {
    const { workloads } = this.#tables;
    const same = workloads.size === before.workloads.size
      && [...workloads.keys()].every((key) => before.workloads.has(key));
    if (same) return;
    const all = [...workloads.keys()].sort();
    this.#fills.looks = new Map(all.map((key) => [key, looks(key, all)]));
    for (const name of this.#boxes.keys()) dirty.add(name);
  }

  // Drawing

  #draw(dirty) {
    const { nodes } = this.#tables;
    const [width, height] = this.#size;
    if (!width || !height) return;
    const anew = this.#layout.place(nodes, width, height);
    if (anew || !this.#cell) this.#cell = this.#meanPod(width * height);
    if (anew) {
      for (const name of nodes.keys()) dirty.add(name);
    }
    const [scale, seen] = [this.zoom.scale, this.zoom.seen()];
    for (const name of dirty) {
      const row = nodes.get(name);
      let box = this.#boxes.get(name);
      if (!row) {
        box?.remove();
        this.#boxes.delete(name);
        continue;
      }
      if (!box) {
        box = new NodeBox(this.nodes, name);
        box.pods = this.#podsOf(name);
        this.#boxes.set(name, box);
      }
      box.place(row, this.#layout.boxes.get(name), this.#cell);
      box.draw(scale, seen, this.#fills);
    }
    if (dirty.size) this.#drawAreas();
    if (!this.#boxes.has(this.#focused)) this.#focusable([...this.#boxes.keys()][0]);
    this.#drawArcs();
  }

  /** About the area that a pod has, were most of the picture boxes; 0 without pods. */
  #meanPod(area) {
    const { nodes, pods } = this.#tables;
    let [all, own, count] = [0, 0, 0];
    for (const [, row] of nodes) all += room(row);
    for (const [, { cpu = 0, memory = 0 }] of pods) {
      own += room({ cpu, memory });
      count += 1;
    }
    return count && all ? Math.max(4, (0.7 * area * own) / (all * count)) : 0;
  }

  #drawAreas() {
    const { scale } = this.zoom;
    const shown = new Set();
    for (const area of this.#layout.areas) {
      const key = area.tier ?? "";
      shown.add(key);
      const name = NAMES[key] ?? "Not ours";
      const drawn = this.#area(key, `area ${key || "other"}`);
      change(drawn.box, { x: area.x, y: area.y, width: area.w, height: area.h });
      change(drawn.name, { x: area.x + 8, y: area.y + 15, text: name });
      const letters = Math.floor((area.w * scale - 30) / 6.2 - name.length);
      change(drawn.said, {
        x: area.x + 8 + (name.length * 8 + 10) / scale, y: area.y + 15,
        text: this.#sums(area.tier).find((said) => said.length <= letters) ?? "",
      });
      for (const { site, x, y, w, h } of area.blocks) {
        if (!site) continue;
        const block = this.#area(`${key}/${site}`, "site");
        shown.add(`${key}/${site}`);
        change(block.box, { x: x + 3, y, width: w - 6, height: h - 3 });
        const fitting = Math.floor((w * scale - 14) / 6);
        change(block.name, { x: x + 8, y: y + 11, text: shortened(site, fitting) });
      }
    }
    for (const [key, { group }] of this.#areas) {
      if (shown.has(key)) continue;
      group.remove();
      this.#areas.delete(key);
    }
  }

  #area(key, kind) {
    if (!this.#areas.has(key)) {
      const group = add(this.areas, "g", { class: kind });
      this.#areas.set(key, {
        group, box: add(group, "rect"), name: add(group, "text", { class: "name" }),
        said: add(group, "text", { class: "said" }),
      });
    }
    return this.#areas.get(key);
  }

  /** How much of a tier is requested, in words: the longest first. */
  #sums(tier) {
    const sum = { nodes: 0, cpu: 0, memory: 0, usedCpu: 0, usedMemory: 0 };
    for (const { row, parts } of this.#boxes.values()) {
      if ((row.tier ?? null) !== tier) continue;
      sum.nodes += 1;
      sum.cpu += row.cpu;
      sum.memory += row.memory;
      sum.usedCpu += parts.cpu * row.cpu;
      sum.usedMemory += parts.memory * row.memory;
    }
    const nodes = `${sum.nodes} ${sum.nodes === 1 ? "node" : "nodes"}`;
    const cpu = percent(sum.usedCpu / (sum.cpu || 1));
    const memory = percent(sum.usedMemory / (sum.memory || 1));
    return [
      `${nodes}, ${cpu} of cpu and ${memory} of memory requested`,
      `${nodes}, cpu ${cpu}, memory ${memory}`,
      nodes,
    ];
  }

  #drawArcs() {
    const moves = arched(this.#tables.moves, this.#chosen, this.#at);
    this.arcs.draw(moves, (id, move) => this.#ends(id, move), {
      scale: this.zoom.scale, chosen: this.#chosen, width: this.#size[0], at: this.#at,
    });
  }

  #ends(id, move) {
    const [source, target] = [this.#boxes.get(move.source), this.#boxes.get(move.target)];
    if (!source || !target) return null;
    const there = target.pods.has(move.replacement) ? move.replacement : `move ${id}`;
    return [source.where(move.pod), target.where(there)];
  }

  #rested() {
    this.svg.style.setProperty("--px", `${1 / this.zoom.scale}px`);
    this.#drawAreas();
    this.#drawArcs();
    this.#refine();
  }

  /** Draw those nodes anew that look different at this scale, some in each frame. */
  #refine() {
    cancelAnimationFrame(this.#later);
    const [scale, seen] = [this.zoom.scale, this.zoom.seen()];
    const until = performance.now() + SLICE;
    for (const box of this.#boxes.values()) {
      if (!box.differs(scale, seen)) continue;
      if (performance.now() > until) {
        this.#later = requestAnimationFrame(() => this.#refine());
        return;
      }
      box.draw(scale, seen, this.#fills);
    }
    this.#mark();
  }

  #resized() {
    const { clientWidth, clientHeight } = this.host;
    if (clientWidth === this.#size[0] && clientHeight === this.#size[1]) return;
    this.#size = [clientWidth, clientHeight];
    this.#draw(new Set());
    this.zoom.whole();
    this.#reveal();
    this.#mark();
  }

  // What is chosen

  /** Bring what is chosen into sight. */
  #reveal() {
    const chosen = this.#chosen;
    const node = chosen?.kind === "node" ? chosen.key : this.#tables.pods.get(chosen?.key)?.node;
    const box = this.#boxes.get(node);
    if (box) this.zoom.reveal(box.at, Math.min(LEGIBLE, this.#size[0] / 3));
  }

  /** Show by a class which pods came or moved, and on which nodes pods are others. */
  #markDifferent() {
    if (!this.#compared && !this.svg.querySelector(".different")) return;
    const { moved, came, went } = differences(this.#compared ?? this.#tables, this.#tables);
    const places = [...moved.values(), ...came.values(), ...went.values()];
    const nodes = new Set(places.flatMap(({ from, to }) => [from, to]));
    for (const { group, name } of this.#boxes.values()) {
      group.classList.toggle("different", nodes.has(name));
    }
    for (const pod of this.svg.querySelectorAll("[data-pod]")) {
      const { pod: key } = pod.dataset;
      pod.classList.toggle("different", moved.has(key) || came.has(key));
    }
  }

  /** Show by a class what is chosen, and the node that holds it. */
  #mark() {
    this.#markDifferent();
    for (const marked of this.svg.querySelectorAll(".node.chosen, .pod.chosen, .node.holds")) {
      marked.classList.remove("chosen", "holds");
    }
    const { kind, key } = this.#chosen ?? {};
    this.svg.classList.toggle("picking", kind === "workload");
    if (!["node", "pod", "workload"].includes(kind)) return;
    for (const own of this.svg.querySelectorAll(`[data-${kind}="${CSS.escape(key)}"]`)) {
      own.classList.add("chosen");
    }
    const holder = kind === "pod" && this.#boxes.get(this.#tables.pods.get(key)?.node);
    if (holder) holder.group.classList.add("holds");
  }

  #clicked({ target }) {
    const found = thing(target);
    if (found) this.choose(found);
  }

  // Keys

  #focusedOn({ target }) {
    const name = target.closest("[data-node]")?.dataset.node;
    if (name) this.#focusable(name);
  }

  /** One node at a time is reached by Tab. */
  #focusable(name) {
    this.#boxes.get(this.#focused)?.group.setAttribute("tabindex", -1);
    this.#focused = name;
    this.#boxes.get(name)?.group.setAttribute("tabindex", 0);
  }

  #pressed(event) {
    const focused = this.#boxes.get(this.#focused);
    const { key, ctrlKey, metaKey, altKey } = event;
    if (ctrlKey || metaKey || altKey || !focused) return;
    if (ARROWS[key]) this.#step(focused, ARROWS[key]);
    else if (key === "Enter" || key === " ") this.choose({ kind: "node", key: focused.name });
    else if (key === "+" || key === "=") this.zoom.by(1.5);
    else if (key === "-") this.zoom.by(1 / 1.5);
    else if (key === "0") this.zoom.whole();
    else return;
    event.preventDefault();
  }

  /** To the nearest node in that direction. */
  #step(from, [dx, dy]) {
    const middle = ({ x, y, w, h }) => [x + w / 2, y + h / 2];
    const [fx, fy] = middle(from.at);
    let [nearest, least] = [null, Infinity];
    for (const box of this.#boxes.values()) {
      const [x, y] = middle(box.at);
      const along = (x - fx) * dx + (y - fy) * dy;
      const aside = Math.abs((x - fx) * dy) + Math.abs((y - fy) * dx);
      if (along > 1 && along + 2 * aside < least) [nearest, least] = [box, along + 2 * aside];
    }
    if (!nearest) return;
    nearest.group.focus({ preventScroll: true });
    this.zoom.reveal(nearest.at);
  }
}

/** What an element stands for: { kind, key }; null: nothing. */
export function thing(element) {
  const found = element.closest("[data-pod], [data-move], [data-node]");
  const kind = ["pod", "move", "node"].find((one) => found?.dataset[one]);
  return kind ? { kind, key: found.dataset[kind] } : null;
}

/** The pods that no node is chosen for, by key. */
export function waiting(pods) {
  return [...pods].filter(([, { state, node }]) => !node && WAITING.has(state));
}
