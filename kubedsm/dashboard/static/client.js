/** Client of the server: requests, and the stream of updates, reopened where it broke off. */

/** Seconds for an answer, where nothing else is said. */
const PATIENCE = 30;

/** The answer at a path below page/. Throws an Error that says why, with its `status`. */
export async function ask(path, signal = AbortSignal.timeout(1000 * PATIENCE)) {
  const token = sessionStorage.getItem("token");
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const answer = await fetch(`page/${path}`, { headers, signal, cache: "no-store" });
  if (answer.ok) return answer;
  const retry = Number(answer.headers.get("Retry-After"));
  throw Object.assign(new Error(await answer.text()), { status: answer.status, retry });
}

/** Ask with that token from now on, as long as this tab is open. */
export function enter(token) {
  sessionStorage.setItem("token", token);
  location.reload();
}

/** Seconds without a word after which a connection is taken for lost; the server says one in 10. */
const SILENCE = 25;
/** Seconds from one attempt to the next, at first and at most. */
const [FIRST, LONGEST] = [0.5, 8];
/** Seconds for which nobody need see the page: a browser has few connections to one server. */
const UNSEEN = 20;

/**
 * Read what is told into a recording, for ever: what it has is not told again, and of another run of
 * the scheduler all is told. `onState` hears "connected", "away" or "refused"; `onMore` that the
 * recording has more. A page that nobody sees lets go of its connection, and catches up when it is seen.
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
      // A stream that ends in good order is to be asked for again.
    } catch (error) {
      if (!document.hidden) onState(error.status === 401 ? "refused" : "away");
    }
    await new Promise((done) => setTimeout(done, 1000 * pause));
    pause = Math.min(LONGEST, 2 * pause);
  }
}

/**
 * The messages of one connection: what the recording lacks, line by line, and then what comes. An empty
 * one where it only says that it is there.
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

/** Pieces of the text of an answer; `heard` limits the silence before each. */
async function* pieces(answer, heard) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { value, done } = await heard(reader.read());
    if (done) return;
    yield value;
  }
}

/** What the server is told of what the recording has. */
function known({ version, run }) {
  return version ? `?${new URLSearchParams({ after: version, run })}` : "";
}
