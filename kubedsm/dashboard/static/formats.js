/** Formats of moments, durations, percentages and names. Times are in seconds since the epoch. */

/** The shortest stretch that is drawn. */
const SHORTEST = 5;
/** The first length of a stretch that grows. */
const FIRST = 30;
/** Lengths that it has in turn, and from one tick to the next. */
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 86400];

const CLOCK = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });

/** What clocks count from: when a replay begins, whose days never were; null: the day's. */
let zero = null;

/** Have all clocks count from a moment. */
export function countFrom(moment) {
  zero = moment;
}

/** A moment, as a clock tells it. */
export function clock(at) {
  if (zero === null) return CLOCK.format(1000 * at);
  const all = Math.round(Math.abs(at - zero));
  const rest = new Date(1000 * all).toISOString().slice(14, 19);
  return `${at < zero && all ? "-" : ""}${Math.floor(all / 3600)}:${rest}`;
}

/** How long something lasts. */
export function lasting(seconds) {
  const all = Math.round(seconds);
  if (all < 60) return `${all} s`;
  return all < 3600 ? both(all, "min", "s") : both(Math.round(all / 60), "h", "min");
}

function both(all, large, small) {
  return `${Math.floor(all / 60)} ${large}${all % 60 ? ` ${all % 60} ${small}` : ""}`;
}

/**
 * The stretch { from, to } that is drawn of what there is, as wanted: { from, length }. Without
 * `length` it is all; without `from` it keeps up with the end, now and then, so that the picture is
 * at rest in between.
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

/** What to want in order to see the stretch longer or shorter, with `around` where it is. */
export function zoomed({ from, to }, factor, around, begins, ends) {
  const length = Math.max(SHORTEST, (to - from) * factor);
  if (length >= ends - begins) return { from: null, length: null };
  return within(around - ((around - from) / (to - from)) * length, length, begins, ends);
}

/** What to want in order to see the stretch that much later. */
export function panned({ from, to }, seconds, begins, ends) {
  return within(from + seconds, to - from, begins, ends);
}

/** What to want in order to see that moment too: what is drawn, if it is there. */
export function including({ from, to }, moment, begins, ends) {
  const length = to - from;
  if (moment >= from && moment <= to) return { from, length };
  return within(moment - length / 10, length, begins, ends);
}

function within(from, length, begins, ends) {
  return { from: Math.max(begins - length / 20, Math.min(from, ends - length * 0.9)), length };
}

/** Round moments in a stretch, no nearer to each other than 90 pixels of its `width`. */
export function ticks({ from, to }, width) {
  const least = ((to - from) * 90) / Math.max(width, 1);
  const step = STEPS.find((one) => one >= least) ?? STEPS.at(-1);
  const found = [];
  const start = zero ?? 0;
  const first = Math.ceil((from - start) / step) * step + start;
  for (let at = first; at <= to; at += step) found.push(at);
  return found;
}

/** "80%". */
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

/** Without its namespace. */
export function ownName(key) {
  return key.slice(key.indexOf("/") + 1);
}
