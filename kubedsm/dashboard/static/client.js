/** Client of the server: requests, and the stream of updates, resumed after an interruption. */

/** Default timeout of a request in seconds. */
const PATIENCE = 30;

/** Return the response at a path below page/. Throws an Error with the reason and the `status`. */
export async function ask(path, signal = AbortSignal.timeout(1000 * PATIENCE)) {
  const token = sessionStorage.getItem("token");
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const answer = await fetch(`page/${path}`, { headers, signal, cache: "no-store" });
  if (answer.ok) return answer;
  const retry = Number(answer.headers.get("Retry-After"));
  throw Object.assign(new Error(await answer.text()), { status: answer.status, retry });
}

/** Send the token with all requests of this tab. */
export function enter(token) {
  sessionStorage.setItem("token", token);
  location.reload();
}

/** Seconds of silence after which a connection counts as lost; the server sends a line every 10. */
const SILENCE = 25;
/** First and longest back-off between two attempts, in seconds. */
const [FIRST, LONGEST] = [0.5, 8];
/** Seconds for which a hidden page keeps its connection: a browser has few to one server. */
const UNSEEN = 20;

/**
 * Read updates into a recording, without end. The server sends only messages that the recording
 * lacks, and all messages of another run of the scheduler. `onState` gets "connected", "away" or
 * "refused"; `onMore` is called after each update. A hidden page closes its connection, and catches
 * up when it is visible again.
 */
export async function follow({ ask, recording, onMore, onState }) {
  let pause = FIRST;
  for (;;) {
    while (document.hidden) {
      await new Promise((done) => {
        document.addEventListener("visibilitychange", done, { once: true });
      });
    }
    try {
      for await (const line of lines(ask, recording)) {
        pause = FIRST;
        onState("connected");
        if (!line) continue;
        recording.read(line);
        onMore();
      }
      // The stream ended without an error: request it again.
    } catch (error) {
      if (!document.hidden) onState(error.status === 401 ? "refused" : "away");
    }
    await new Promise((done) => setTimeout(done, 1000 * pause));
    pause = Math.min(LONGEST, 2 * pause);
  }
}

/**
 * Yield the messages of one connection, as text: those that the recording lacks, then new ones. A
 * keep-alive yields an empty text.
 */
async function* lines(ask, recording) {
  const stopping = new AbortController();
  const stop = () => stopping.abort();
  const heard = (waited) => {
    const silence = setTimeout(stop, 1000 * SILENCE);
    return waited.finally(() => clearTimeout(silence));
  };
  let unseen;
  const look = () => {
    clearTimeout(unseen);
    if (document.hidden) unseen = setTimeout(stop, 1000 * UNSEEN);
  };
  document.addEventListener("visibilitychange", look);
  try {
    let text = "";
    const kept = await heard(ask(`recording${known(recording)}`, stopping.signal));
    for await (const piece of pieces(kept, heard)) text += piece;
    yield text;
    text = "";
    const answer = await heard(ask(`stream${known(recording)}`, stopping.signal));
    for await (const piece of pieces(answer, heard)) {
      const parts = (text + piece).split("\n\n");
      text = parts.pop();
      for (const part of parts) yield part.startsWith("data: ") ? part.slice("data: ".length) : "";
    }
  } finally {
    document.removeEventListener("visibilitychange", look);
    clearTimeout(unseen);
    stop();
  }
}

/** Yield the text of a response in pieces; `heard` limits the silence before each. */
async function* pieces(answer, heard) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { value, done } = await heard(reader.read());
    if (done) return;
    yield value;
  }
}

/** Return the query that names the last message of the recording. */
function known({ version, run }) {
  return version ? `?${new URLSearchParams({ after: version, run })}` : "";
}
