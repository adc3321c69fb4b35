/**
 * What was told, message by message, and how things stood at any of its moments.
 *
 * Rows are never changed: tables of different moments share all rows, and all tables, that are the
 * same, so that who draws can tell by identity what is different. Of what goes on no more is
 * kept than the server keeps; the oldest is forgotten in turn.
 */

import { History } from "./history.js";

/** Of what goes on: characters of messages that are kept, and seconds that they go back. */
export const KEPT = { room: 8_000_000, span: 3_600 };
/** Rows of changes in a chapter at least, and seconds of it at most. */
const [ROWS, LENGTH] = [500, 300];
/** Moments last asked for, whose tables are kept: now, what is shown, what it is compared with. */
const ASKED = 4;

const TABLES = ["nodes", "pods", "workloads", "moves", "news", "status"];
const NOTHING = Object.fromEntries(TABLES.map((table) => [table, new Map()]));

/** The tables after messages, one after the other; those without a change are the same ones. */
export function after(tables, messages) {
  const next = { ...tables };
  for (const { type, rows } of messages) {
    if (type === "snapshot") {
      for (const table of TABLES) next[table] = new Map(Object.entries(rows[table] ?? {}));
      continue;
    }
    for (const [table, some] of Object.entries(rows)) {
      if (next[table] === tables[table]) next[table] = new Map(tables[table]);
      for (const [key, row] of Object.entries(some)) {
        if (row === null) next[table].delete(key);
        else next[table].set(key, row);
      }
    }
  }
  return next;
}

/** Of films side by side, which begin at the same time, the tables of each; null: as of its end. */
export function tablesAt(films, moment) {
  return films.map((film) => film.at(moment ?? Infinity));
}

/**
 * Chapters: each has all tables as they were when it began, and its messages. It is as long as its
 * changes are as many as the rows at its begin, so that neither what is kept of tables nor what
 * must be made again for a moment is ever much more than the messages themselves.
 */
export class Film {
  #chapters = [];
  #kept;
  #newest = null;
  /** Of the moments last asked for, the tables that were made: { chapter, count, tables }. */
  #asked = [];
  /** What of it is drawn along time. */
  history = new History();
  /** Characters of messages that are kept. */
  size = 0;

  constructor(kept = { room: Infinity, span: Infinity }) {
    this.#kept = kept;
  }

  /** Take in lines of text, each a message. */
  read(lines) {
    for (const line of lines.split("\n")) {
      if (line) this.add(JSON.parse(line), line.length);
    }
  }

  /** Take in a message of that many characters; one that is known already is left out. */
  add(message, size = 0) {
    // Before anything was seen there is nothing to show.
    if (!message.at) return;
    const run = message.run ?? this.run;
    const same = !this.empty && run === this.run;
    if (same && message.version <= this.version) return;
    // The clock of another run may be another one: what was told before has no place beside this.
    if (!same && message.at < this.ends) this.#forgetAll();
    const told = { ...message, run, at: Math.max(message.at, this.ends) };
    const follows = this.empty || (same && message.version === this.version + 1);
    this.history.take(told, follows ? null : this.ends);
    this.#write(told, size);
    this.#newest = told;
    this.#forget();
  }

  get empty() { return this.#newest === null; }
  get begins() { return this.#chapters[0]?.at ?? 0; }
  get ends() { return this.#newest?.at ?? 0; }
  get version() { return this.#newest?.version; }
  /** Of the server's runs, the one that told the last message. */
  get run() { return this.#newest?.run; }

  /** The tables as of the last message. */
  get last() { return this.at(this.ends); }

  /** The tables as they were at that moment, in seconds since the epoch. */
  at(moment) {
    if (this.empty) return NOTHING;
    const chapter = this.#chapters[lastNotAfter(this.#chapters, moment)];
    const count = 1 + lastNotAfter(chapter.messages, moment);
    // Made from what was made before, where that helps.
    let spot = this.#asked.reduce((best, one) => (
      one.chapter === chapter && one.count <= count && one.count > best.count ? one : best
    ), chapter.begin);
    if (spot.count < count) {
      const tables = after(spot.tables, chapter.messages.slice(spot.count, count));
      spot = { chapter, count, tables };
    }
    this.#asked = [spot, ...this.#asked.filter((one) => one !== spot)].slice(0, ASKED);
    return spot.tables;
  }

  #write(message, size) {
    const { type, at, rows } = message;
    const whole = type === "snapshot";
    let chapter = this.#chapters.at(-1);
    if (!chapter || whole || chapter.rows > chapter.most || at > chapter.at + LENGTH) {
      const tables = whole ? after(NOTHING, [message]) : this.last;
      const most = Math.max(ROWS, sum(tables, (table) => table.size));
      chapter = { at, messages: [], rows: 0, most, size: 0 };
      chapter.begin = { chapter, count: whole ? 1 : 0, tables };
      this.#chapters.push(chapter);
    }
    chapter.messages.push(message);
    if (!whole) chapter.rows += sum(rows, (table) => Object.keys(table).length);
    chapter.size += size;
    this.size += size;
  }

  #forget() {
    const { begins } = this;
    const { room, span } = this.#kept;
    while (this.#chapters.length > 1
      && (this.size > room || this.#chapters[1].at < this.ends - span)) {
      this.size -= this.#chapters.shift().size;
    }
    if (this.begins !== begins) this.history.forget(this.begins);
  }

  #forgetAll() {
    [this.#chapters, this.size, this.#newest, this.#asked] = [[], 0, null, []];
    this.history = new History();
  }
}

function sum(tables, size) {
  return Object.values(tables).reduce((all, table) => all + size(table), 0);
}

/** Where in a list, by its `at`, is the last that is not after a moment; 0 if all are. */
export function lastNotAfter(list, moment) {
  let [low, high] = [0, list.length - 1];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (list[middle].at <= moment) low = middle;
    else high = middle - 1;
  }
  return Math.max(0, low);
}
