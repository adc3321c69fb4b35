/** What the scheduler tells, as it comes: asked for again, from where it ended, when it breaks off. */

/** Seconds without a word, after which the connection is taken for lost; the server says one in 10. */
const SILENCE = 25;
/** Seconds from one attempt to the next, at first and at most. */
const [FIRST, LONGEST] = [0.5, 8];

/**
 * Read the stream into a film, for ever: what it has is not told again, and of another run of the
 * scheduler all is told. `onState` hears "connected", "away" or "refused"; `onMore` that the film
 * has more.
 */
export async function follow({ ask, film, onMore, onState }) {
  let pause = FIRST;
  for (;;) {
    try {
      for await (const line of lines(ask, film)) {
        pause = FIRST;
        onState("connected");
        if (!line) continue;
        film.read(line);
        onMore();
      }
      onState("away");
    } catch (error) {
      onState(error.status === 401 ? "refused" : "away");
    }
    await new Promise((done) => setTimeout(done, 1000 * pause));
    pause = Math.min(LONGEST, 2 * pause);
  }
}

/** The messages of one connection; an empty one where it only says that it is there. */
async function* lines(ask, { version, run }) {
  const stopping = new AbortController();
  const heard = (waited) => {
    const silence = setTimeout(() => stopping.abort(), 1000 * SILENCE);
    return waited.finally(() => clearTimeout(silence));
  };
  const known = version ? `?${new URLSearchParams({ after: version, run })}` : "";
  try {
    const answer = await heard(ask(`stream${known}`, stopping.signal));
    yield "";
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { value, done } = await heard(reader.read());
      if (done) return;
      const parts = (text + value).split("\n\n");
      text = parts.pop();
      for (const part of parts) yield part.startsWith("data: ") ? part.slice("data: ".length) : "";
    }
  } finally {
    stopping.abort();
  }
}
