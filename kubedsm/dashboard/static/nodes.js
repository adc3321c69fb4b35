/** One node: its box, how it is, and what fills it: pod by pod where there is room for that. */

import { Filling, part, pieces, requested, scarcest, shares } from "./filling.js";
import { add, change, shortened } from "./svg.js";
import { ownName, percent } from "./formats.js";

/** Square pixels for each pod, from which on pods are drawn one by one. */
const ROOMY = 90;
/** Pixels: a letter's width, around what fills a box, and for each line of measured load. */
const [LETTER, PAD, LOAD] = [6.3, 4, 3.5];
/** Pixels: how high a share is for its pattern to be made out; patterns are slow to paint. */
const PATTERNED = 12;
/** A letter of a pod's name, how high a pod has to be for it, and how large a node for its own. */
const [POD_LETTER, NAMED, HEADED] = [5.8, 14, { w: 40, h: 14 }];

/** In a square of 12: what each state looks like, besides its word. */
const MARKS = {
  cordoned: "M6 1A5 5 0 1 1 5.9 1ZM3.2 6H8.8",
  "not ready": "M6 1L11.3 10.8H.7ZM6 4.4V7.4M6 9V9.1",
  unreachable: "M2 6H2.1M6 6H6.1M10 6H10.1M1 2.5L11 9.5",
  "cut off": "M0 6H3.5M8.5 6H12M4.2 2.5V9.5M7.8 2.5V9.5",
  settling: "M6 1A5 5 0 1 1 5.9 1ZM6 3.4V6.2L8 7.6",
};

export class NodeBox {
  row = null;
  /** Rows of its pods, by key: those on it, those on their way to it, and what is held there. */
  pods = new Map();
  #filling = new Filling();
  #resource = null;
  #drawn = new Map();
  /** Its name, how full it is, and its state; null where they have no room. */
  #texts = null;
  #detailed = null;
  #scale = 0;

  constructor(layer, name) {
    this.name = name;
    this.group = add(layer, "g", {
      class: "node", role: "button", tabindex: -1, "data-node": name,
    });
    this.box = add(this.group, "rect", { class: "box" });
    this.body = add(this.group, "g");
    this.load = add(this.group, "path", { class: "load" });
    this.used = add(this.group, "path", { class: "load used" });
  }

  remove() {
    this.group.remove();
  }

  /** Take in another row, box or pods. `cell`: the area that a pod has in the mean, or 0. */
  place(row, box, cell) {
    const moved = this.at !== box;
    const empty = this.#filling.places.size === 0;
    Object.assign(this, { row, at: box });
    const pods = [...this.pods.values()];
    this.#resource = scarcest(requested(row, pods), this.#resource);
    // What is held is for when others have gone: with both, it would seem more than there is.
    this.parts = requested(row, pods.filter(({ state }) => state !== "held"));
    this.filled = [...this.pods].map(([key, pod]) => [
      key, { part: part(pod, row, this.#resource), workload: pod.workload },
    ]);
    this.#filling.update(this.filled);
    if (moved) {
      this.group.style.transform = `translate(${round(box.x)}px, ${round(box.y)}px)`;
      change(this.box, { width: round(box.w), height: round(box.h), rx: Math.min(2, box.h / 20) });
    }
    this.#measure(cell, moved || empty);
    this.#frame();
    this.#detailed = null;
  }

  /** The middle of a pod's place in the picture; of the box, if it has none here. */
  where(key) {
    const { x, y, w, h } = this.at;
    const place = this.#filling.places.get(key);
    if (!place) return [x + w / 2, y + h / 2];
    const [px, py, pw, ph] = widest(this.#pieces(place));
    return [x + this.inner.x + px + pw / 2, y + this.inner.y + py + ph / 2];
  }

  /** Whether it would be drawn otherwise at that scale; `seen`: left, top, right, bottom. */
  differs(scale, seen) {
    return this.#detailed !== this.#detail(scale, seen) || this.#scale !== scale;
  }

  /** Draw what has changed. `fills`: how workloads are filled. */
  draw(scale, seen, fills) {
    const detailed = this.#detail(scale, seen);
    this.#scale = scale;
    this.#head(scale);
    const drawn = detailed ? this.#podsDrawn(scale) : this.#sharesDrawn(scale);
    for (const [key, item] of this.#drawn) {
      if (drawn.has(key)) continue;
      item.path.remove();
      item.label?.remove();
      this.#drawn.delete(key);
    }
    for (const [key, look] of drawn) this.#item(key, look, fills);
    this.#detailed = detailed;
  }

  #detail(scale, [left, top, right, bottom]) {
    const { x, y, w, h } = this.at;
    const away = x > right || y > bottom || x + w < left || y + h < top;
    return !away && this.inner.w * this.inner.h * scale * scale >= ROOMY * this.pods.size;
  }

  #measure(cell, fresh) {
    const { w, h } = this.at;
    const lines = Number(this.row.cpuUsed != null) + Number(this.row.memoryUsed != null);
    const head = Math.min(17, h * 0.27);
    const pad = Math.min(PAD, w / 12, h / 10);
    const line = Math.min(LOAD, h / 16);
    const inner = { x: pad, y: head, w: w - 2 * pad, h: h - head - pad - line * lines };
    if (fresh) this.rows = Math.max(1, Math.round(inner.h / Math.sqrt(cell || inner.h ** 2)));
    this.inner = inner;
    const track = (used, at) => (used == null ? ["", ""] : [
      `M${pad} ${round(h - line * at)}h${round(inner.w)}`,
      `M${pad} ${round(h - line * at)}h${round(inner.w * Math.min(1, used))}`,
    ]);
    const cpu = track(this.row.cpuUsed, lines);
    const memory = track(this.row.memoryUsed, 1);
    const thick = round(0.65 * line);
    change(this.load, { d: cpu[0] + memory[0], "stroke-width": thick });
    change(this.used, { d: cpu[1] + memory[1], "stroke-width": thick });
  }

  #frame() {
    const { state = "", cordoned, tier, site } = this.row;
    const filled = percent(this.parts[this.#resource]);
    change(this.group, {
      "data-state": state || null,
      "aria-label": [
        this.name, tier ?? "not ours", site && `site ${site}`, state,
        cordoned && state !== "cordoned" && "cordoned",
        `${this.pods.size} pods`, `${filled} of ${this.#resource} requested`,
      ].filter(Boolean).join(", "),
    });
  }

  /** Its name and, as far as there is room, its state and how full it is. */
  #head(scale) {
    const { w, h } = this.at;
    const { state = "" } = this.row;
    const shown = w * scale >= HEADED.w && this.inner.y * scale >= HEADED.h;
    if (Boolean(MARKS[state]) !== Boolean(this.mark)) {
      this.mark?.remove();
      this.mark = state ? add(this.group, "path", { class: "mark" }) : null;
    }
    if (this.mark) {
      const size = Math.min(1 / scale, w / 14, h / 14);
      change(this.mark, {
        d: MARKS[state],
        transform: `translate(${round(PAD / scale)},${round(2 / scale)}) scale(${round(size)})`,
      });
    }
    if (shown !== Boolean(this.#texts)) {
      for (const text of this.#texts ?? []) text.remove();
      const named = (name) => add(this.group, "text", { class: name });
      this.#texts = shown ? ["name", "fullness", "word"].map(named) : null;
    }
    if (!shown) return;
    const [title, fullness, word] = this.#texts;
    const said = `${this.#resource} ${percent(this.parts[this.#resource])}`;
    const left = PAD + (state ? 14 : 0);
    const letters = Math.floor((w * scale - left - PAD) / LETTER);
    const roomy = letters >= Math.min(this.name.length, 12) + said.length + 1;
    const y = round(this.inner.y - 4.5 / scale);
    change(title, {
      x: round(left / scale), y,
      text: shortened(this.name, roomy ? letters - said.length - 1 : letters),
    });
    change(fullness, { x: round(w - PAD / scale), y, text: roomy ? said : "" });
    const words = h * scale >= 44 && w * scale >= state.length * LETTER + 4;
    change(word, { x: round(w / 2), y: round(h - 8 / scale), text: words ? state : "" });
  }

  #pieces(place) {
    return pieces(place, this.rows, this.inner.w, this.inner.h);
  }

  #podsDrawn(scale) {
    const drawn = new Map();
    for (const [key, pod] of this.pods) {
      drawn.set(key, {
        rects: this.#pieces(this.#filling.places.get(key)),
        workload: pod.workload, state: pod.state, pod, scale,
      });
    }
    return drawn;
  }

  #sharesDrawn(scale) {
    const drawn = new Map();
    for (const [workload, from, to] of shares(this.filled)) {
      const rects = this.#pieces({ from, to });
      drawn.set(`share of ${workload}`, { rects, workload, state: "share", scale });
    }
    return drawn;
  }

  #item(key, { rects, workload, state, pod, scale }, fills) {
    let item = this.#drawn.get(key);
    if (!item) {
      const path = add(this.body, "path", {
        "data-workload": workload, "data-pod": pod && state !== "held" ? key : null,
        "data-move": pod?.state === "held" ? pod.move : null,
      });
      item = { path, label: null };
      this.#drawn.set(key, item);
    }
    const [colour, patterned] = fills.of(pod?.scheduler ? null : workload);
    const fill = pod || rects[0][3] * scale >= PATTERNED ? patterned : colour;
    if (item.fill !== fill) [item.fill, item.path.style.fill] = [fill, fill];
    if (item.colour !== colour) [item.colour, item.path.style.stroke] = [colour, colour];
    const { x, y } = this.inner;
    const gap = pod ? Math.min(0.75, rects[0][2] / 8) : 0;
    change(item.path, {
      class: `pod ${state.replace(" ", "-")}`,
      d: rects.map(([px, py, w, h]) => (
        `M${round(x + px + gap)} ${round(y + py + gap)}h${round(w - 2 * gap)}`
        + `v${round(h - 2 * gap)}h${round(2 * gap - w)}z`)).join(""),
    });
    this.#label(item, rects, key, pod, scale);
  }

  /** Its name, or that of its workload, where there is room for it. */
  #label(item, rects, key, pod, scale) {
    const [px, py, w, h] = widest(rects);
    const letters = Math.floor((w * scale - 6) / POD_LETTER);
    const text = pod && h * scale >= NAMED
      ? [key, pod.workload].map(ownName).find((name) => name.length <= letters) : null;
    if (!text || pod.state === "held") {
      item.label?.remove();
      item.label = null;
      return;
    }
    item.label ??= add(this.body, "text", { class: "pod-name" });
    change(item.label, {
      x: round(this.inner.x + px + 4 / scale), y: round(this.inner.y + py + 12 / scale), text,
    });
  }
}

function widest(rects) {
  return rects.reduce((one, other) => (other[2] > one[2] ? other : one));
}

/** To a hundredth of a pixel: more only makes text longer. */
function round(value) {
  return Math.round(100 * value) / 100;
}
