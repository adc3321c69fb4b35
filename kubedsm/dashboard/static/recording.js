/** Recording of messages: the state at any moment, and its history.
 *
 * Rows are never changed: tables of different moments share all equal rows and tables, so renderers
 * compare them by identity. A live page keeps no more than the server; the oldest is dropped. */

/** Limits of a live recording: characters of its messages, and their age in seconds. */
export const KEPT = { room: 8_000_000, span: 3_600 };
/** Minimum of changed rows in a chapter, and its maximum length in seconds. */
const [ROWS, LENGTH] = [500, 300];
/** Last requested moments whose tables are kept. */
const ASKED = 4;
/** News and migrations of earlier runs of the scheduler that stay in the tables. */
const CARRIED = 100;

const TABLES = ["nodes", "pods", "workloads", "moves", "news", "status"];
const NOTHING = Object.fromEntries(TABLES.map((table) => [table, new Map()]));

/** Return the tables after some messages; unchanged tables stay identical. */
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

/**
 * Recording in chapters: each has the tables of its begin, and its messages. A chapter ends when
 * its changed rows outnumber the rows of its begin. Thus memory for tables, and work for the tables
 * of a moment, stay proportional to the messages.
 */
export class Recording {
  #chapters = [];
  #kept;
  #newest = null;
  /** Cached tables of the last requested moments: { chapter, count, tables }. */
  #asked = [];
  /** Values over time, for the timeline and the charts. */
  history = new History();
  /** Characters of all messages. */
  size = 0;

  constructor(kept = { room: Infinity, span: Infinity }) {
    this.#kept = kept;
  }

  /** Add the messages in lines of text. */
  read(lines) {
    for (const line of lines.split("\n")) {
      if (line) this.add(JSON.parse(line), line.length);
    }
  }

  /** Add a message of `size` characters; a known message is ignored. */
  add(message, size = 0) {
    // A message without a time precedes the first state of the cluster.
    if (!message.at) return;
    const run = message.run ?? this.run;
    const same = !this.empty && run === this.run;
    if (same && message.version <= this.version) return;
    // Another run may have another clock, and a clock may be set back: earlier messages would no
    // longer be in order.
    if (message.type === "snapshot" && message.at < this.ends) this.#forgetAll();
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
  /** Run of the server that sent the last message. */
  get run() { return this.#newest?.run; }

  /** Tables as of the last message. */
  get last() { return this.at(this.ends); }

  /** Return the tables as of a moment, in seconds since the epoch. */
  at(moment) {
    if (this.empty) return NOTHING;
    const chapter = this.#chapters[lastNotAfter(this.#chapters, moment)];
    const count = 1 + lastNotAfter(chapter.messages, moment);
    // Cached tables of an earlier moment in the chapter save messages.
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
      const tables = whole ? this.#carried(after(NOTHING, [message]), message.run) : this.last;
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

  /** Return the tables of a new run, with news and ended migrations of earlier runs. */
  #carried(tables, run) {
    const { run: before, last } = this;
    if (this.empty || run === before) return tables;
    const earlier = (id) => (id.includes("@") ? id : `${id}@${before}`);
    const moves = [...last.moves].filter(([, { state }]) => OVER.has(state))
      .map(([id, row]) => [earlier(id), row]);
    const news = [...last.news].slice(-CARRIED)
      .map(([id, row]) => [earlier(id), row.move ? { ...row, move: earlier(row.move) } : row]);
    return { ...tables, moves: new Map([...moves.slice(-CARRIED), ...tables.moves]),
      news: new Map([...news, ...tables.news]) };
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

/** Return the index of the last item of a list with `at` not after a moment; else 0. */
function lastNotAfter(list, moment) {
  return Math.max(0, list.findLastIndex(({ at }) => at <= moment));
}

/** States of ended migrations. */
const OVER = new Set(["completed", "rolled back", "failed", "dropped"]);
/** Lane by kind of news; migrations are drawn as spans. */
const LANES = { batch: "decisions", suggestion: "decisions", event: "events", state: "events" };

/** Values over time of a recording, which passes on each message once. */
export class History {
  /** Shares by workload: { at, edge, total, target }, each until the next; total 0: deleted. */
  shares = new Map();
  /** Migrations: { id, row, begins, ends }; ends is null while in progress. */
  moves = new Map();
  /** Rows of news with `lane` and `seen`, the time of the message; in order of time. */
  marks = [];
  /** Periods without data: { from, to }. */
  gaps = [];
  /** Moments of visible changes, in order. */
  changes = [];
  #begins = null;
  /** Number of the newest news of this run: a snapshot repeats all news. */
  #newest = -1;
  #run = "";

  /** Add the next message; `unknown`: begin of a period without data before it, or null. */
  take({ type, at, run, rows }, unknown = null) {
    if (run !== this.#run) [this.#run, this.#newest] = [run, -1];
    if (unknown !== null) this.gaps.push({ from: unknown, to: at });
    // A snapshot lists earlier news and migrations, but not the state at their time.
    this.#begins ??= type === "snapshot" ? at : 0;
    if (type === "snapshot") this.#end(rows, unknown ?? at);
    this.#shares(rows.workloads ?? {}, at);
    this.#moves(rows.moves ?? {}, at);
    if (rows.news) this.#news(rows.news, at);
  }

  /** Delete everything that ended before a moment. */
  forget(before) {
    this.#begins = before;
    for (const [workload, points] of this.shares) {
      const kept = points.filter((_, i) => i + 1 === points.length || points[i + 1].at > before);
      if (kept.length === 1 && !kept[0].total && kept[0].at < before) this.shares.delete(workload);
      else this.shares.set(workload, kept);
    }
    for (const [key, { ends }] of this.moves) {
      if (ends !== null && ends < before) this.moves.delete(key);
    }
    this.marks = this.marks.filter((mark) => mark.seen >= before);
    this.gaps = this.gaps.filter(({ to }) => to > before);
    this.changes = this.changes.filter((at) => at >= before);
  }

  /** End workloads and migrations that a snapshot no longer contains. */
  #end(rows, at) {
    for (const workload of this.shares.keys()) {
      if (!rows.workloads?.[workload]) this.#shares({ [workload]: null }, at);
    }
    const there = new Set(Object.keys(rows.moves ?? {}).map((id) => this.#ofRun(id)));
    for (const [key, move] of this.moves) {
      if (move.ends === null && !there.has(key)) this.moves.set(key, { ...move, ends: at });
    }
  }

  #changed(at) {
    if (this.changes.at(-1) !== at) this.changes.push(at);
  }

  #shares(rows, at) {
    for (const [workload, row] of Object.entries(rows)) {
      const { edge, total, target = 0 } = row ?? { edge: 0, total: 0 };
      const points = this.shares.get(workload) ?? [];
      const last = points.at(-1);
      if (last?.edge === edge && last.total === total && last.target === target) continue;
      points.push({ at, edge, total, target });
      this.shares.set(workload, points);
      this.#changed(at);
    }
  }

  #moves(rows, at) {
    for (const [id, row] of Object.entries(rows)) {
      const key = this.#ofRun(id);
      const known = this.moves.get(key);
      if (row === null) {
        // The server drops old ended migrations; those keep their end.
        if (known && known.ends === null) this.moves.set(key, { ...known, ends: at });
        continue;
      }
      const ends = OVER.has(row.state) ? known?.ends ?? (row.ended || at) : null;
      if (ends !== null && ends < this.#begins) continue;
      this.moves.set(key, { id, row, begins: Math.min(at, row.began || row.at), ends });
      if (known?.row.state !== row.state || known.row.step !== row.step) this.#changed(at);
    }
  }

  /** Return a key of an id: each run of the scheduler numbers its migrations from the start. */
  #ofRun(id) {
    return `${this.#run} ${id}`;
  }

  #news(rows, at) {
    const told = this.#newest;
    for (const [number, row] of Object.entries(rows)) {
      if (row === null || Number(number) <= told || row.at < this.#begins) continue;
      this.#newest = Math.max(this.#newest, number);
      const lane = LANES[row.kind];
      if (lane) this.marks.push({ ...row, at: Math.min(at, row.at), seen: at, lane });
      this.#changed(at);
    }
    this.marks.sort((one, other) => one.at - other.at);
  }
}
