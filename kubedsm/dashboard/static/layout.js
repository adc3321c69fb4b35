/**
 * Where each node is drawn: tiers as areas, sites as blocks in them, nodes as boxes in rows.
 *
 * A box's area is its node's room, on one scale for all. A node keeps its place as others come and
 * go; who is new takes room that is left at the end of a row, then the place of one that went. Only
 * where there is none, or all has to fit another size, everything is laid out anew, in the same
 * order.
 */

const GIB = 2 ** 30;
/** So many GiB count as much as a core: about what there is of both in machines that are sold. */
const GIB_PER_CORE = 4;

/** From one scale that is tried to the next, and how often. */
const [FINER, STEPS] = [0.94, 120];

const TIERS = ["edge", "cloud", null];
/** Pixels, at most: between boxes, around what is in an area, and above that for its name. */
const [GAP, PAD, HEAD, SITE_HEAD] = [5, 6, 22, 15];
/** How wide the mean box of a tier may be for its height, the best first. */
const ASPECTS = [1.35, 1.05, 1.7, 0.85, 2.1];
/** In how many columns sites may be; how much of its due the first tier may have. */
const [COLUMNS, SHARES] = [[3, 2, 1], [1, 0.8, 1.25]];
/** Laid out anew once so much of what was there then is left. */
const SHRUNK = 0.55;

/** How much a node takes, in cores. */
export function room({ cpu, memory }) {
  return cpu / 1000 + memory / GIB / GIB_PER_CORE;
}

export class Layout {
  /** Of each tier that has nodes: { tier, x, y, w, h, blocks: [{ site, x, y, w, h }] }. */
  areas = [];
  /** Of each node { x, y, w, h }, those that went included, as long as nobody took their place. */
  boxes = new Map();
  #size = [0, 0];
  #laidOut = 0;
  #of = new Map();

  /** Place these nodes into a picture of that size. Whether all was laid out anew. */
  place(nodes, width, height) {
    const fits = width === this.#size[0] && height === this.#size[1] && this.areas.length > 0;
    if (fits && this.#added(nodes)) return false;
    this.#size = [width, height];
    this.#anew(nodes);
    return true;
  }

  /** Whether all have their place, or could be given one. */
  #added(nodes) {
    let present = 0;
    for (const [name, row] of nodes) {
      present += room(row);
      const known = this.#of.get(name);
      if (!known) {
        if (!this.#squeezed(name, row, nodes)) return false;
      } else if (known.row !== row) {
        if (known.room !== room(row) || known.where !== whereabouts(row)) return false;
        known.row = row;
      }
    }
    return present > SHRUNK * this.#laidOut;
  }

  #squeezed(name, row, nodes) {
    const block = this.#block(whereabouts(row));
    if (!block) return false;
    const w = (room(row) * block.scale) / block.rowHeight;
    const shelf = block.shelves.find((one) => one.end + w <= block.x + block.w - PAD + 0.5);
    if (shelf) {
      this.#put(name, row, { x: shelf.end, y: shelf.y, w, h: block.rowHeight });
      shelf.end += w + block.gap;
      return true;
    }
    for (const [gone, box] of this.boxes) {
      const left = this.#of.get(gone);
      if (nodes.has(gone) || left.where !== whereabouts(row) || box.w < w - 0.5) continue;
      this.boxes.delete(gone);
      this.#of.delete(gone);
      this.#put(name, row, { ...box, w });
      return true;
    }
    return false;
  }

  #block(where) {
    for (const { blocks } of this.areas) {
      const found = blocks.find((block) => block.where === where);
      if (found) return found;
    }
    return null;
  }

  #put(name, row, box) {
    this.boxes.set(name, box);
    this.#of.set(name, { row, room: room(row), where: whereabouts(row) });
  }

  #anew(nodes) {
    const before = [...this.boxes.keys()].filter((name) => nodes.has(name));
    const known = new Set(before);
    const fresh = [...nodes.keys()].filter((name) => !known.has(name)).sort(byName);
    const order = [...before, ...fresh].map((name) => ({ name, row: nodes.get(name) }));
    const tiers = grouped(order, TIERS);
    this.#laidOut = order.reduce((sum, { row }) => sum + room(row), 0);
    this.boxes = new Map();
    this.#of = new Map();
    this.areas = tiers.length ? largest(tiers, ...this.#size) : [];
    for (const { blocks } of this.areas) {
      for (const { shelves } of blocks) {
        for (const { boxes } of shelves) {
          for (const { name, row, ...box } of boxes) this.#put(name, row, box);
        }
      }
    }
  }
}

/** By name, numbers in it by their value. */
const byName = new Intl.Collator("en", { numeric: true }).compare;

function whereabouts({ tier, site }) {
  return `${tier ?? ""}/${site ?? ""}`;
}

function grouped(order, tiers) {
  const found = [];
  for (const tier of tiers) {
    const own = order.filter(({ row }) => (row.tier ?? null) === tier);
    if (!own.length) continue;
    const names = [...new Set(own.map(({ row }) => row.site ?? ""))].sort(byName);
    const sites = names.map((site) => {
      const nodes = own.filter(({ row }) => (row.site ?? "") === site);
      return {
        site, where: whereabouts({ tier, site }), nodes, rooms: nodes.map(({ row }) => room(row)),
      };
    });
    const all = sites.reduce((sum, { rooms }) => sum + rooms.reduce((a, b) => a + b), 0);
    found.push({ tier, sites, room: all, mean: all / own.length, named: names.some(Boolean) });
  }
  return found;
}

/** The areas on the largest scale on which they fit: square pixels for a core's worth of room. */
function largest(tiers, width, height) {
  const all = tiers.reduce((sum, tier) => sum + tier.room, 0);
  const shares = tiers.length > 1 ? SHARES : [1];
  let scale = (width * height) / all;
  for (let step = 0; step < STEPS; step += 1) {
    for (const share of shares) {
      const ways = fitting(tiers, scale, share, width, height);
      if (ways) return ways.map((way) => areaOf(way));
    }
    scale *= FINER;
  }
  return [];
}

/** How each tier is laid out at that scale, or null if they do not fit. */
function fitting(tiers, scale, share, width, height) {
  const due = tiers.map((tier, index) => tier.room * (index ? 1 : share));
  const all = due.reduce((sum, one) => sum + one, 0);
  // Side by side where it is wide, one below the other where it is not.
  const beside = width > 1.1 * height && width > 560;
  const least = beside ? Math.min(170, width / tiers.length) : width;
  const spare = width - GAP * (tiers.length - 1) - least * tiers.length;
  const ways = [];
  let [x, y] = [0, 0];
  for (const [index, tier] of tiers.entries()) {
    const w = beside ? least + (spare * due[index]) / all : width;
    const way = bestWay(tier, scale, w, height - y);
    if (!way) return null;
    ways.push({ ...way, x, y, h: beside ? height : way.h });
    if (beside) x += w + GAP;
    else y += way.h + GAP;
  }
  return ways;
}

/** The best way to lay out a tier in that width and height; null if there is none. */
function bestWay(tier, scale, w, height) {
  for (const aspect of ASPECTS) {
    for (const columns of tier.sites.length > 1 ? COLUMNS : [1]) {
      const way = { tier, scale, columns, rowHeight: Math.sqrt((tier.mean * scale) / aspect), w };
      const h = HEAD + flow(way, height - HEAD);
      if (h <= height) return { ...way, h };
    }
  }
  return null;
}

/**
 * Lay the blocks out in lines, and their boxes in rows: `onBlock` hears of each with what is in it.
 * The height of all that; infinite if a box is too wide, or it is higher than `most`.
 */
function flow({ tier, scale, columns, rowHeight, w }, most, onBlock = null) {
  const gap = Math.min(GAP, 0.18 * rowHeight);
  const head = tier.named ? SITE_HEAD : 0;
  let [left, top, line] = [0, 0, 0];
  for (const block of tier.sites) {
    const widths = block.rooms.map((one) => (one * scale) / rowHeight);
    const inner = widths.reduce((sum, one) => sum + one + gap, -gap);
    const width = Math.min(w / columns, inner + 2 * PAD);
    if (left && left + width > w + 0.5) [left, top, line] = [0, top + line, 0];
    const rows = [];
    let end = Infinity;
    for (const [index, one] of widths.entries()) {
      if (one > width - 2 * PAD + 0.5) return Infinity;
      if (end + one > width - PAD + 0.5) {
        rows.push([]);
        end = PAD;
      }
      rows.at(-1).push({ index, x: end, w: one });
      end += one + gap;
    }
    const h = head + rows.length * (rowHeight + gap) - gap + PAD;
    if (top + h > most) return Infinity;
    onBlock?.({ block, left, top, width, h, rows, head, gap });
    left += width;
    line = Math.max(line, h);
  }
  return top + line;
}

function areaOf(way) {
  const { tier: { tier, named }, x, y, w, h, rowHeight, scale } = way;
  const blocks = [];
  flow(way, Infinity, ({ block, left, top, width, h: high, rows, head, gap }) => {
    const [bx, by] = [x + left, y + HEAD + top];
    const shelves = rows.map((row, number) => {
      const sy = by + head + number * (rowHeight + gap);
      const boxes = row.map(({ index, x: at, w: wide }) => (
        { ...block.nodes[index], x: bx + at, y: sy, w: wide, h: rowHeight }));
      const last = boxes.at(-1);
      return { y: sy, end: last.x + last.w + gap, boxes };
    });
    const { site, where } = block;
    blocks.push({
      site, where, x: bx, y: by, w: named ? width : w, h: high, shelves, rowHeight, gap, scale,
    });
  });
  return { tier, x, y, w, h, blocks };
}
