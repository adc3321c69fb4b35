/** What of a film is drawn along time: shares of workloads, moves as spans, and what happened. */

/** States in which a move is over. */
const OVER = new Set(["completed", "taken back", "failed", "dropped"]);
/** The lane of each kind of news; a move is told by its span. */
const LANES = { batch: "decisions", suggestion: "decisions", event: "events", state: "events" };

/** The one owner of it; a film tells it each message once. */
export class History {
  /** By workload, its shares: { at, edge, total, promise }, each until the next; total 0: gone. */
  shares = new Map();
  /** Moves: { id, row, begins, ends }; ends is null while it is under way. */
  moves = new Map();
  /** What happened: rows of news with `lane` and with `seen`, when it was told; by time. */
  marks = [];
  /** Times of which nothing is known: { from, to }. */
  gaps = [];
  /** Moments at which something changed that one would look at, by time. */
  changes = [];
  #begins = null;
  /** The number of the newest news of this run: a snapshot tells all of it again. */
  #newest = -1;
  #run = "";

  /** Take in the next message; `unknown`: since when what happened before it was not told. */
  take({ type, at, run, rows }, unknown = null) {
    if (run !== this.#run) [this.#run, this.#newest] = [run, -1];
    if (unknown !== null) this.gaps.push({ from: unknown, to: at });
    // What was over before all this is told by a snapshot, but not how things stood then.
    this.#begins ??= type === "snapshot" ? at : 0;
    if (type === "snapshot") this.#end(rows, unknown ?? at);
    this.#shares(rows.workloads ?? {}, at);
    this.#moves(rows.moves ?? {}, at);
    if (rows.news) this.#news(rows.news, at);
  }

  /** Forget what was over before a moment. */
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

  /** End what a snapshot has no more. */
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
      const { edge, total, promise = 0 } = row ?? { edge: 0, total: 0 };
      const points = this.shares.get(workload) ?? [];
      const last = points.at(-1);
      if (last?.edge === edge && last.total === total && last.promise === promise) continue;
      points.push({ at, edge, total, promise });
      this.shares.set(workload, points);
      this.#changed(at);
    }
  }

  #moves(rows, at) {
    for (const [id, row] of Object.entries(rows)) {
      const key = this.#ofRun(id);
      const known = this.moves.get(key);
      if (row === null) {
        // It may be told no longer, of those that are over.
        if (known && known.ends === null) this.moves.set(key, { ...known, ends: at });
        continue;
      }
      const ends = OVER.has(row.state) ? known?.ends ?? (row.ended || at) : null;
      if (ends !== null && ends < this.#begins) continue;
      this.moves.set(key, { id, row, begins: Math.min(at, row.began || row.at), ends });
      if (known?.row.state !== row.state || known.row.step !== row.step) this.#changed(at);
    }
  }

  /** Ids and numbers begin anew with each run of the scheduler. */
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
