/** Address of what the page shows: selection, moment, search and site, in the URL's fragment. */

/** Kinds of things that can be selected. */
const KINDS = ["pod", "node", "workload", "move", "decision", "what-if"];
/** Milliseconds without a further change after which a change without a new page is written. */
const REST = 250;

/** Return the state that a fragment describes: { chosen, moment, filter, site }. */
function parse(fragment, opening) {
  const query = new URLSearchParams(fragment.replace(/^#/, ""));
  const kind = KINDS.find((each) => query.has(each));
  const recording = Number(query.get("recording")) || 0;
  const moment = Number(query.get("at"));
  return {
    chosen: kind ? { kind, key: query.get(kind), recording } : null,
    moment: query.has("at") && Number.isFinite(moment) ? moment : opening,
    filter: query.get("find") ?? "",
    site: query.get("site") ?? "",
  };
}

/** Return the fragment that describes a state; empty for the page as it opens. */
function format({ chosen, moment, filter, site }, opening) {
  const query = new URLSearchParams();
  if (chosen) query.set(chosen.kind, chosen.key);
  if (chosen?.recording) query.set("recording", chosen.recording);
  if (moment !== opening && moment !== null) query.set("at", moment.toFixed(3));
  if (filter) query.set("find", filter);
  if (site) query.set("site", site);
  return query.size ? `#${query}` : "";
}

/** Part of a state whose change is a step that "back" undoes. */
function describeStep({ chosen, moment, site }, opening) {
  const what = chosen?.kind === "what-if" ? "" : chosen?.key;
  return JSON.stringify([chosen?.kind, what, chosen?.recording ?? 0, moment === opening, site]);
}

/**
 * Keep the URL and a state equal. `opening`: the moment of a page without one in its URL. `onOpen`
 * gets the state of the URL: now, and after back or forward. Return the function to be called with
 * each new state.
 */
export function address(onOpen, opening) {
  const read = (fragment) => parse(fragment, opening);
  const write = (state) => format(state, opening);
  const step = (state) => describeStep(state, opening);
  let [shown, timer] = [read(location.hash), 0];
  const url = (state) => `${location.pathname}${location.search}${write(state)}`;
  addEventListener("popstate", () => {
    clearTimeout(timer);
    shown = read(location.hash);
    onOpen(shown);
  });
  onOpen(shown);
  return (state) => {
    const [before, depth] = [shown, history.state?.depth ?? 0];
    shown = state;
    if (write(state) === write(before)) return;
    clearTimeout(timer);
    if (step(state) !== step(before)) history.pushState({ depth: depth + 1 }, "", url(state));
    // Browsers refuse to change the URL with every frame of a drag.
    else timer = setTimeout(() => history.replaceState({ depth }, "", url(state)), REST);
  };
}

/** Return whether "back" stays on the page. */
export function canGoBack() {
  return (history.state?.depth ?? 0) > 0;
}
