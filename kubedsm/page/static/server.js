/** Asking the server that this page came from. */

/** The answer at a path below page/. Throws an Error that says why, with its `status`. */
export async function ask(path, signal) {
  const token = sessionStorage.getItem("token");
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const answer = await fetch(`page/${path}`, { headers, signal, cache: "no-store" });
  if (answer.ok) return answer;
  throw Object.assign(new Error(await answer.text()), { status: answer.status });
}
