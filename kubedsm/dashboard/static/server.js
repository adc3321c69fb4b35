/** Asking the server that this page came from. */

/** Seconds for an answer, where nothing else is said. */
const PATIENCE = 30;

/** The answer at a path below page/. Throws an Error that says why, with its `status`. */
export async function ask(path, signal = AbortSignal.timeout(1000 * PATIENCE)) {
  const token = sessionStorage.getItem("token");
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const answer = await fetch(`page/${path}`, { headers, signal, cache: "no-store" });
  if (answer.ok) return answer;
  throw Object.assign(new Error(await answer.text()), { status: answer.status });
}

/** Ask with that token from now on, as long as this tab is open. */
export function enter(token) {
  sessionStorage.setItem("token", token);
  location.reload();
}
