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
/** Moments last asked for, whose tables are kept: what is shown, and what it is compared with. */
const ASKED = 3;

const NOTHING = Object.freeze({
  nodes: new Map(), pods: new Map(), workloads: new Map(), moves: new Map(), news: new Map(),
  status: new Map(),
});

/** The tables after messages, one after the other; those without a change are the same ones. */
export function after(tables, messages) {
  const next = { ...tables };
  for (const { type, rows } of messages) {
    if (type === "snapshot") {
      for (const table of Object.keys(NOTHING)) {
        next[table] = new Map(Object.entries(rows[table] ?? {}));
      }
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

/** Of films side by side, the tables of each as long after its begin; null: as of its end. */
export function tablesAt(films, moment) {
  if (moment === null) return films.map((film) => film.last);
  return films.map((film) => film.at(film.begins + moment - films[0].begins));
}

/**
 * Chapters: each has all tables as they were when it began, and its messages. It is as long as its
 * changes are as many as the rows at its begin, so that neither what is kept of tables nor what
 * must be made again for a moment is ever much more than the messages themselves.
 */
export class Film {
  #chapters = [];
  #size = 0;
  #kept;
  #newest = null;
  /** Tables that were made: of the last message, and of the moments last asked for. */
  #last = null;
  #asked = [];
  /** What of it is drawn along time. */
  history = new History();

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
    const run = message.run ?? this.#newest?.run;
    const same = this.#newest !== null && run === this.#newest.run;
    if (same && message.version <= this.#newest.version) return;
    // The clock of another run may be another one: what was told before has no place beside this.
    if (!same && message.at < this.ends) this.#forgetAll();
    const told = { ...message, at: Math.max(message.at, this.ends) };
    const follows = same && message.version === this.#newest.version + 1;
    this.history.take(told, follows || this.empty ? null : this.ends);
    this.#write(told, size);
    this.#newest = { at: told.at, version: told.version, run };
    this.#forget();
  }

  get empty() { return this.#newest === null; }
  get begins() { return this.#chapters[0]?.messages[0].at ?? 0; }
  get ends() { return this.#newest?.at ?? 0; }
  get version() { return this.#newest?.version; }
  /** Of the server's runs, the one that told the last message. */
  get run() { return this.#newest?.run; }
  /** Characters of messages that are kept. */
  get size() { return this.#size; }

  /** The tables as of the last message. */
  get last() {
    if (this.empty) return NOTHING;
    const chapter = this.#chapters.at(-1);
    return (this.#last = reached(this.#last, chapter, chapter.messages.length)).tables;
  }

  /** The tables as they were at that moment, in seconds since the epoch. */
  at(moment) {
    if (moment >= this.ends) return this.last;
    const chapter = this.#chapters[lastNotAfter(this.#chapters, moment, (c) => c.messages[0].at)];
    const count = 1 + lastNotAfter(chapter.messages, moment, (message) => message.at);
    const before = this.#asked.filter((spot) => spot.chapter === chapter && spot.count <= count)
      .sort((one, other) => other.count - one.count);
    const spot = reached(before[0], chapter, count);
    this.#asked = [spot, ...this.#asked.filter((each) => each !== spot)].slice(0, ASKED);
    return spot.tables;
  }

  #write(message, size) {
    let chapter = this.#chapters.at(-1);
    const whole = message.type === "snapshot";
    if (!chapter || whole || chapter.rows > chapter.most
      || message.at > chapter.messages[0].at + LENGTH) {
      const tables = whole ? after(NOTHING, [message]) : this.last;
      const most = Math.max(ROWS, count(tables, (rows) => rows.size));
      chapter = { messages: [], rows: 0, most, size: 0 };
      chapter.begin = { chapter, count: whole ? 1 : 0, tables };
      this.#chapters.push(chapter);
    }
    chapter.messages.push(message);
    if (!whole) chapter.rows += count(message.rows, (rows) => Object.keys(rows).length);
    chapter.size += size;
    this.#size += size;
  }

  #forget() {
    const [oldest] = this.#chapters;
    const { room, span } = this.#kept;
    while (this.#chapters.length > 1
      && (this.#size > room || this.#chapters[1].messages[0].at < this.ends - span)) {
      this.#size -= this.#chapters.shift().size;
    }
    if (this.#chapters[0] !== oldest) this.history.forget(this.begins);
  }

  #forgetAll() {
    this.#chapters = [];
    [this.#size, this.#newest, this.#last, this.#asked] = [0, null, null, []];
    this.history = new History();
  }
}

/** The tables after so many messages of a chapter, made from what was made before if that helps. */
function reached(spot, chapter, count) {
  const start = spot?.chapter === chapter && spot.count <= count ? spot : chapter.begin;
  if (start.count === count) return start;
  const messages = chapter.messages.slice(start.count, count);
  return { chapter, count, tables: after(start.tables, messages) };
}

function count(tables, size) {
  return Object.values(tables).reduce((sum, rows) => sum + size(rows), 0);
}

/** Where in a list, by time, is the last that is not after a moment; 0 if all are. */
export function lastNotAfter(list, moment, timeOf) {
  let [low, high] = [0, list.length - 1];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (timeOf(list[middle]) <= moment) low = middle;
    else high = middle - 1;
  }
  return Math.max(0, low);
}
