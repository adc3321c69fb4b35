/**
 * Where pods are in their node: one after the other on a strip that is as long as what can be
 * requested of it, broken into rows as a text is into lines. What is left of it is room not used.
 *
 * Parts are of cpu, memory or pods: whichever is scarcest on that node.
 */

const RESOURCES = ["cpu", "memory", "pods"];
/** By so much another resource has to be scarcer to be drawn instead. */
const SLACK = 0.05;
/** What a pod is drawn as that requests nothing, as a part of what is a pod's due. */
const SLIVER = 0.25;
const NEARLY = 1e-6;

/** Of a node and the rows of its pods: how much of each resource is requested, as parts. */
export function requested(node, pods) {
  const sum = { cpu: 0, memory: 0, pods: pods.length };
  for (const pod of pods) {
    sum.cpu += pod.cpu ?? 0;
    sum.memory += pod.memory ?? 0;
  }
  return Object.fromEntries(RESOURCES.map((one) => [one, node[one] ? sum[one] / node[one] : 0]));
}

/** The resource that is scarcest; the one that was, as long as it nearly is. */
export function scarcest(parts, before) {
  const most = RESOURCES.reduce((one, other) => (parts[other] > parts[one] ? other : one));
  return before && parts[before] > parts[most] - SLACK ? before : most;
}

/** Which part of the node a pod takes. */
export function part(pod, node, resource) {
  const least = SLIVER / Math.max(node.pods, 1);
  const own = resource === "pods" ? 1 : (pod[resource] ?? 0);
  return Math.max(least, node[resource] ? own / node[resource] : 0);
}

/** The places of the pods of one node: intervals of 0 to 1. */
export class Filling {
  /** Of each pod { from, to, of }. */
  places = new Map();
  #scale = 1;

  /** Take in what is there: [key, { part, workload }] of each. Others are gone. */
  update(pods) {
    const wanted = new Map(pods);
    const scale = Math.max(1, pods.reduce((sum, [, pod]) => sum + pod.part, 0));
    const fresh = [];
    for (const key of [...this.places.keys()]) if (!wanted.has(key)) this.places.delete(key);
    for (const [key, pod] of wanted) {
      const place = this.places.get(key);
      if (place && Math.abs(place.part - pod.part) > NEARLY) this.places.delete(key);
      if (!this.places.has(key)) fresh.push([key, pod]);
    }
    if (scale !== this.#scale) {
      this.#scale = scale;
      this.#closeUp();
    }
    fresh.sort(([a, one], [b, other]) => compared(one.workload, other.workload) || compared(a, b));
    for (const [key, pod] of fresh) this.#put(key, pod);
  }

  #put(key, { part: wide, workload }) {
    const width = wide / this.#scale;
    let gap = this.#gap(width, workload);
    if (!gap) {
      this.#closeUp();
      gap = this.#gaps().at(-1) ?? { from: 1 - width };
    }
    this.places.set(key, { from: gap.from, to: gap.from + width, part: wide, workload });
  }

  /** Next to a pod of the same workload, if there is room; otherwise where least is left over. */
  #gap(width, workload) {
    const fitting = this.#gaps().filter(({ from, to }) => to - from >= width - NEARLY);
    return fitting.find(({ after }) => after === workload)
      ?? fitting.reduce((one, other) => (!one || wide(other) < wide(one) ? other : one), null);
  }

  #gaps() {
    const gaps = [];
    let [end, after] = [0, null];
    for (const { from, to, workload } of this.#inOrder()) {
      if (from - end > NEARLY) gaps.push({ from: end, to: from, after });
      [end, after] = [to, workload];
    }
    if (1 - end > -NEARLY) gaps.push({ from: end, to: 1, after });
    return gaps;
  }

  #inOrder() {
    return [...this.places.values()].sort((one, other) => one.from - other.from);
  }

  #closeUp() {
    let end = 0;
    for (const place of this.#inOrder()) {
      [place.from, place.to] = [end, end + place.part / this.#scale];
      end = place.to;
    }
  }
}

/** The same strip by workload alone: [workload, from, to] of each, those alike together. */
export function shares(pods) {
  const sums = new Map();
  for (const [, pod] of pods) sums.set(pod.workload, (sums.get(pod.workload) ?? 0) + pod.part);
  const all = [...sums].sort(([one], [other]) => compared(one, other));
  const scale = Math.max(1, all.reduce((sum, [, own]) => sum + own, 0));
  let end = 0;
  return all.map(([workload, own]) => {
    const from = end;
    end += own / scale;
    return [workload, from, end];
  });
}

/** The rectangles [x, y, w, h] of an interval of the strip: several where a row ends in it. */
export function pieces({ from, to }, rows, width, height) {
  const found = [];
  const rowHeight = height / rows;
  const last = Math.min(rows - 1, Math.ceil(to * rows - NEARLY) - 1);
  for (let row = Math.min(last, Math.floor(from * rows + NEARLY)); row <= last; row += 1) {
    const a = Math.max(0, from * rows - row) * width;
    const b = Math.min(1, to * rows - row) * width;
    found.push([a, row * rowHeight, b - a, rowHeight]);
  }
  return found;
}

function wide({ from, to }) {
  return to - from;
}

function compared(one, other) {
  return one < other ? -1 : Number(one > other);
}
