/** What the scheduler tells, as it comes: asked for again, from where it ended, when it breaks off. */

/** Seconds without a word, after which the connection is taken for lost; the server says one in 10. */
const SILENCE = 25;
/** Seconds from one attempt to the next, at first and at most. */
const [FIRST, LONGEST] = [0.5, 8];

/**
 * Follow the stream for ever. `onMessage` hears each message; `onState` whether we are connected.
 * `after` says what is known already: a version, or nothing.
 */
export async function follow({ ask, after, onMessage, onState }) {
  let pause = FIRST;
  for (;;) {
    try {
      for await (const message of messages(ask, after())) {
        pause = FIRST;
        onState("connected");
        if (message) onMessage(message);
      }
    } catch (error) {
      onState(error.status === 401 ? "refused" : "away");
    }
    await new Promise((done) => setTimeout(done, 1000 * pause));
    pause = Math.min(LONGEST, 2 * pause);
  }
}

/** The messages of one connection; null where it only says that it is there. */
async function* messages(ask, version) {
  const stopping = new AbortController();
  const answer = await ask(version ? `stream?after=${version}` : "stream", stopping.signal);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      const silence = setTimeout(() => stopping.abort(), 1000 * SILENCE);
      const { value, done } = await reader.read().finally(() => clearTimeout(silence));
      if (done) return;
      const parts = (text + value).split("\n\n");
      text = parts.pop();
      for (const part of parts) {
        yield part.startsWith("data: ") ? JSON.parse(part.slice("data: ".length)) : null;
      }
    }
  } finally {
    stopping.abort();
  }
}
