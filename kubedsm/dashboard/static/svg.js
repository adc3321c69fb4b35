/** SVG elements, made and changed by hand: only what is different is touched. */

import { HATCHES } from "./palette.js";

const NAMESPACE = "http://www.w3.org/2000/svg";

/** A new element in `parent`, after all that is there. */
export function add(parent, name, attributes = {}) {
  const made = document.createElementNS(NAMESPACE, name);
  change(made, attributes);
  parent.append(made);
  return made;
}

/** Set attributes; null: there is none. `text` is what is in it. */
export function change(element, { text, ...attributes }) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined) element.removeAttribute(name);
    else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
  }
  if (text !== undefined && element.textContent !== text) element.textContent = text;
}

/** As much of a name as so many letters hold: its middle goes first. */
export function shortened(name, letters) {
  if (name.length <= letters) return name;
  if (letters < 3) return "";
  const end = Math.floor((letters - 1) / 2);
  return `${name.slice(0, letters - 1 - end)}…${end ? name.slice(-end) : ""}`;
}

let pictures = 0;

/** How workloads are filled: with a colour, and a pattern over it where their look has one. */
export class Fills {
  /** By workload; those that are not ours have none. */
  looks = new Map();
  #defs;
  #made = new Map();
  #prefix = `fill-${(pictures += 1)}`;

  constructor(svg) {
    this.#defs = add(svg, "defs");
  }

  /** The colour alone, and that with the pattern: for `fill`. */
  of(workload) {
    const { colour = "var(--soft)", pattern } = this.looks.get(workload) ?? {};
    if (!pattern) return [colour, colour];
    const key = `${colour}/${pattern}`;
    if (!this.#made.has(key)) this.#made.set(key, this.#pattern(colour, HATCHES[pattern]));
    return [colour, this.#made.get(key)];
  }

  #pattern(colour, hatch) {
    const id = `${this.#prefix}-${this.#made.size}`;
    const pattern = add(this.#defs, "pattern", {
      id, width: 6, height: 6, patternUnits: "userSpaceOnUse",
    });
    add(pattern, "rect", { width: 6, height: 6 }).style.fill = colour;
    add(pattern, "path", { d: hatch, class: "hatch" });
    return `url(#${id})`;
  }
}
