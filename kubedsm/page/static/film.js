/**
 * What was told, message by message, and how things stood at any of its moments.
 *
 * Rows are never changed: each message makes tables that share all rows that are the same, so that
 * who draws can tell by identity what is different.
 */

/** One in so many states is kept: from there the others are made again. */
const KEPT_EVERY = 64;

const NOTHING = Object.freeze({
  nodes: new Map(), pods: new Map(), workloads: new Map(), moves: new Map(), news: new Map(),
  status: new Map(),
});

/** The tables after a message. */
export function after(tables, message) {
  if (message.type === "snapshot") {
    return Object.fromEntries(Object.keys(NOTHING).map((table) => [
      table, new Map(Object.entries(message.rows[table] ?? {})),
    ]));
  }
  const next = { ...tables };
  for (const [table, rows] of Object.entries(message.rows)) {
    next[table] = new Map(tables[table]);
    for (const [key, row] of Object.entries(rows)) {
      if (row === null) next[table].delete(key);
      else next[table].set(key, row);
    }
  }
  return next;
}

export class Film {
  #messages = [];
  #kept = [];
  #last = NOTHING;

  /** Take a message in; one that is known already is left out. */
  add(message) {
    const newest = this.#messages.at(-1);
    if (newest && message.version <= newest.version) return;
    this.#last = after(this.#last, message);
    if (this.#messages.length % KEPT_EVERY === 0) this.#kept.push(this.#last);
    this.#messages.push(message);
  }

  get empty() { return this.#messages.length === 0; }
  get begins() { return this.#messages[0]?.at ?? 0; }
  get ends() { return this.#messages.at(-1)?.at ?? 0; }
  get version() { return this.#messages.at(-1)?.version; }
  /** The tables as of the last message. */
  get last() { return this.#last; }

  /** The tables as they were at that moment, in seconds since the epoch. */
  at(moment) {
    const index = this.#index(moment);
    if (index === this.#messages.length - 1) return this.#last;
    let tables = this.#kept[Math.floor(index / KEPT_EVERY)];
    const from = index - (index % KEPT_EVERY) + 1;
    for (const message of this.#messages.slice(from, index + 1)) tables = after(tables, message);
    return tables;
  }

  /** Of the last message not after that moment; of the first one, if all are. */
  #index(moment) {
    let [low, high] = [0, this.#messages.length - 1];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (this.#messages[middle].at <= moment) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}
