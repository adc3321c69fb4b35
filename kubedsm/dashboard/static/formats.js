/** Formats of moments, durations, percentages and names. Times are in seconds since the epoch. */

/** Shortest time range in seconds. */
const SHORTEST = 5;
/** First length of a growing time range, in seconds. */
const FIRST = 30;
/** Lengths of a growing time range, and distances of ticks, in seconds. */
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 86400];

const CLOCK = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });

/** Zero of the clocks: the begin of a replay, whose dates mean nothing; null: time of day. */
let zero = null;

/** Set the zero of all clocks. */
export function countFrom(moment) {
  zero = moment;
}

/** Format a moment as a clock time. */
export function clock(at) {
  if (zero === null) return CLOCK.format(1000 * at);
  const all = Math.round(Math.abs(at - zero));
  const rest = new Date(1000 * all).toISOString().slice(14, 19);
  return `${at < zero && all ? "-" : ""}${Math.floor(all / 3600)}:${rest}`;
}

/** Format a duration. */
export function lasting(seconds) {
  const all = Math.round(seconds);
  if (all < 60) return `${all} s`;
  return all < 3600 ? both(all, "min", "s") : both(Math.round(all / 60), "h", "min");
}

function both(all, large, small) {
  return `${Math.floor(all / 60)} ${large}${all % 60 ? ` ${all % 60} ${small}` : ""}`;
}

/**
 * Return the visible time range { from, to } for a wanted { from, length }. Without `length` it is
 * the whole recording. Without `from` it follows the end in steps, as constant motion would be hard
 * to read.
 */
export function stretch({ from, length }, begins, ends) {
  const all = Math.max(ends - begins, SHORTEST);
  if (length === null) return { from: begins, to: begins + all };
  if (from !== null) return { from, to: from + length };
  const grown = STEPS.find((one) => one >= Math.max(all, FIRST));
  if (grown <= length) return { from: begins, to: begins + grown };
  const to = Math.ceil(ends / (length / 10)) * (length / 10);
  return { from: to - length, to };
}

/** Return the wanted range after zooming by a factor; `around` keeps its place. */
export function zoomed({ from, to }, factor, around, begins, ends) {
  const length = Math.max(SHORTEST, (to - from) * factor);
  if (length >= ends - begins) return { from: null, length: null };
  return within(around - ((around - from) / (to - from)) * length, length, begins, ends);
}

/** Return the wanted range some seconds later. */
export function panned({ from, to }, seconds, begins, ends) {
  return within(from + seconds, to - from, begins, ends);
}

/** Return the wanted range that includes a moment; unchanged if the moment is visible. */
export function including({ from, to }, moment, begins, ends) {
  const length = to - from;
  if (moment >= from && moment <= to) return { from, length };
  return within(moment - length / 10, length, begins, ends);
}

function within(from, length, begins, ends) {
  return { from: Math.max(begins - length / 20, Math.min(from, ends - length * 0.9)), length };
}

/** Return round moments in a time range, at least 90 pixels apart at its `width`. */
export function ticks({ from, to }, width) {
  const least = ((to - from) * 90) / Math.max(width, 1);
  const step = STEPS.find((one) => one >= least) ?? STEPS.at(-1);
  const found = [];
  const start = zero ?? 0;
  const first = Math.ceil((from - start) / step) * step + start;
  for (let at = first; at <= to; at += step) found.push(at);
  return found;
}

/** Format a ratio as "80%". */
export function percent(part) {
  return `${Math.round(100 * part)}%`;
}

/**
 * Return the forms of names by name, longest first: the name, the name without the end that all names
 * have in common, and without the common beginning, with and without an ellipsis. Of ip-10-7-3.internal and
 * ip-10-9-8.internal: ip-10-7-3, …7-3 and 7-3.
 */
export function distinct(names) {
  const [first = "", ...others] = names;
  if (!others.length) return new Map(names.map((name) => [name, [name]]));
  const common = (same) => {
    let length = 0;
    while (length < first.length && others.every((name) => same(name, length))) length += 1;
    return length;
  };
  const begin = common((name, at) => name[at] === first[at]);
  const end = common((name, at) => name.at(-1 - at) === first.at(-1 - at));
  // Words stay whole: a difference begins and ends at a separator.
  const head = first.slice(0, begin).search(/[^-./]*$/);
  const tail = end - (first.slice(first.length - end).match(/^[^-./]*/)?.[0].length ?? 0);
  return new Map(names.map((name) => {
    const kept = name.slice(0, Math.max(head + 1, name.length - tail));
    return [name, [name, kept, ...(head ? [`…${kept.slice(head)}`, kept.slice(head)] : [])]];
  }));
}

/** Return the longest form that has at most that many letters, else the end of the shortest. */
export function fitting(forms, letters) {
  const found = forms.find((form) => form.length <= letters);
  if (found !== undefined) return found;
  return letters < 3 ? "" : `…${forms.at(-1).slice(1 - letters).replace(/^[-./…]+/, "")}`;
}

/** Return a name without its namespace. */
export function ownName(key) {
  return key.slice(key.indexOf("/") + 1);
}
