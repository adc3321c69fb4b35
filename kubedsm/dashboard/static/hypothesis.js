/** Hypothetical changes of a "what if?" question: their words, and the URL's query. */

/** A word as a shell takes it. */
export function quoted(word) {
  return /^[\w./:@%+=,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/**
 * Kinds of changes by the key of the query: `label` begins the sentence; `of` is the kind of thing
 * that changes; `value`, if any, describes the text behind the name; `kubectl` is the command that
 * would make the change.
 */
export const CHANGES = {
  drain: {
    label: "drain node", of: "nodes",
    kubectl: (name) => `kubectl drain ${quoted(name)} --ignore-daemonsets`,
  },
  lose: { label: "lose node", of: "nodes" },
  "lose-site": { label: "lose site", of: "sites" },
  cordon: {
    label: "cordon node", of: "nodes", kubectl: (name) => `kubectl cordon ${quoted(name)}`,
  },
  add: { label: "add nodes like", of: "nodes", value: { text: "number", start: "1" } },
  replicas: {
    label: "add or remove replicas of", of: "workloads", value: { text: "such as +2 or -1", start: "+1" },
    kubectl: (name, value, row) => scoped(name, row,
      (target) => `scale ${target} --replicas=${Math.max(0, (row?.total ?? 0) + Number(value))}`),
  },
  requests: {
    label: "change the requests of", of: "workloads",
    value: { text: "such as cpu=500m,memory=1Gi", start: "cpu=500m" },
    kubectl: (name, value, row) => scoped(name, row,
      (target) => `set resources ${target} --requests=${quoted(value)}`),
  },
  qos: {
    label: "change the edge target of", of: "workloads",
    value: { text: "share of pods, 0 to 1", start: "0.8" },
  },
  latency: {
    label: "change the latency target of", of: "workloads",
    value: { text: "response time, such as 50ms", start: "50ms" },
  },
};

function scoped(key, row, command) {
  const [namespace, name] = key.split("/");
  const kind = (row?.kind ?? "Deployment").toLowerCase();
  return `kubectl -n ${quoted(namespace)} ${command(quoted(`${kind}/${name}`))}`;
}

/** Return the changes of a query: { change, name, value }. */
export function parseChanges(query) {
  return [...new URLSearchParams(query)].filter(([change]) => change in CHANGES)
    .map(([change, text]) => {
      const colon = CHANGES[change].value ? text.indexOf(":") : -1;
      return colon < 0 ? { change, name: text, value: "" }
        : { change, name: text.slice(0, colon), value: text.slice(colon + 1) };
    });
}

/** Return the query of changes; of equal changes of one thing, the last remains. */
export function formatChanges(changes) {
  const last = new Map(changes.map((each) => [`${each.change} ${each.name}`, each]));
  return new URLSearchParams([...last.values()].map(({ change, name, value }) => (
    [change, value ? `${name}:${value}` : name]))).toString();
}

/** Return a change as words: "drain node edge-1". */
export function inWords({ change, name, value }) {
  return `${CHANGES[change].label} ${name}${value ? `: ${value}` : ""}`;
}

/** Return the commands that would make the changes; a change without a command has none. */
export function changeCommands(query, workloads) {
  return parseChanges(query).map(({ change, name, value }) => (
    CHANGES[change].kubectl?.(name, value, workloads.get(name)))).filter(Boolean);
}
