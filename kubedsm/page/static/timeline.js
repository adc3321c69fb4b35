/** What happened when, and the moment that is shown: it can be chosen, and played on from. */

import { Comparison } from "./comparison.js";
import { Lanes, laneAt } from "./lanes.js";
import { SPEEDS, usePlaying } from "./playing.js";
import { clock, including, lasting, panned, stretch, zoomed } from "./times.js";
import { Told, toldAt } from "./told.js";
import { scale } from "./tracks.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/htm-preact.js";

/** Seconds that are drawn at first, and at most, of what goes on. */
const [RECENT, LONGEST] = [600, 3600];
/** Seconds by which the Page keys go on. */
const PAGE = 10;
/** Pixels that a pointer moves before it drags. */
const STILL = 3;

export function Timeline({ films, titles = [], state, set }) {
  const live = state.connection !== "recorded";
  const [begins, ends] = [films[0].begins, endOf(films)];
  const moment = state.moment ?? ends;
  const whole = { from: null, length: live ? LONGEST : null };
  const [wanted, want] = useState(live ? { from: null, length: RECENT } : whole);
  const drawn = stretch(wanted, begins, ends);
  const [track, setTrack] = useState(null);
  const width = useWidth(track);
  const x = scale(drawn, width, ends);
  const [pointed, point] = useState(null);

  /** Show that moment; the last one is now, as long as there is one. */
  function go(at, more = {}) {
    const now = live && at >= ends;
    const to = Math.max(begins, Math.min(at, ends));
    set({ ...more, moment: now ? null : to });
    if (now) want({ from: null, length: wanted.length });
    else want(including(drawn, to, begins, ends) ?? standing(wanted, drawn));
  }

  function zoom(factor, around = moment) {
    const length = (drawn.to - drawn.from) * factor;
    if (live && state.moment === null) want({ from: null, length: Math.min(length, LONGEST) });
    else want(zoomed(drawn, factor, around, begins, ends) ?? whole);
  }

  // A recording is of a quarter of an hour and more, and nothing of it is yet to come.
  const first = live ? SPEEDS[0] : SPEEDS.at(-1);
  const player = usePlaying({ moment, ends, go, first });
  const act = {
    go,
    zoom,
    now: () => {
      player.setPlaying(false);
      go(ends);
    },
    play: () => {
      if (!player.playing && moment >= ends) go(live ? Math.max(begins, drawn.from) : begins);
      player.setPlaying(!player.playing);
    },
    step: (by) => go(changeBeside(films, moment, by) ?? (by < 0 ? begins : ends)),
    pan: (seconds) => want(panned(drawn, seconds, begins, ends)),
    compare: () => set({ compared: state.compared == null ? moment : null }),
    choose: (found) => go(found.moment, found.chosen ? { chosen: found.chosen } : {}),
    all: () => want(whole),
  };
  useKeys({ c: act.compare, n: act.now });
  const pointing = usePointing({ track, films, x, act, point });

  if (films[0].empty) return null;
  const said = toldAt(films[0], moment);
  return html`
    <footer class=${state.moment !== null && live ? "timeline past" : "timeline"}
      aria-label="Timeline">
      <${Controls} ...${{ live, state, moment, begins, ends, player, act }} />
      <${Comparison} ...${{ films, titles, state, moment, set }} />
      <div class="tracks" role="slider" tabindex="0" aria-label="Moment that is shown"
        aria-valuemin="0" aria-valuemax=${Math.round(ends - begins)}
        aria-valuenow=${Math.round(moment - begins)}
        aria-valuetext=${[place(live, state, moment, begins, ends), ...said].join(". ")}
        ref=${setTrack} onKeyDown=${(event) => onKey(event, act, moment)} ...${pointing}>
        <${Lanes} ...${{ films, titles, x, width, state, live }} />
        ${state.compared != null && html`
          <${Band} x=${x} from=${state.compared} to=${moment} />
          <${Line} x=${x} at=${state.compared} name="compared" />`}
        ${pointed && html`<${Line} x=${x} at=${pointed.moment} name="pointed" />`}
        <${Line} x=${x} at=${moment} name="moment" />
        ${pointed && html`<${Told} pointed=${pointed} width=${width} />`}
      </div>
    </footer>`;
}

function Controls({ live, state, moment, begins, ends, player, act }) {
  const past = state.moment !== null;
  const button = (name, says, onClick, more = {}) => html`
    <button type="button" aria-label=${says} title=${says} onClick=${onClick} ...${more}>
      ${name}</button>`;
  return html`
    <div class="controls">
      <span class="together">
        ${button("‹", "To the change before (left arrow)", () => act.step(-1))}
        <button type="button" class="play" onClick=${act.play}>
          ${player.playing ? "Pause" : "Play"}</button>
        ${button("›", "To the next change (right arrow)", () => act.step(1))}
      </span>
      <span class="together" role="group" aria-label="Speed">
        ${SPEEDS.map((speed) => button(`${speed}×`, `Play ${speed} times as fast`,
          () => player.setSpeed(speed), { "aria-pressed": player.speed === speed }))}
      </span>
      <p class="place">${place(live, state, moment, begins, ends)}</p>
      ${live && html`<button type="button" class="now" disabled=${!past} onClick=${act.now}
        title="Back to now (N)">${past ? "Back to now" : "Now"}</button>`}
      <button type="button" class="compare" aria-pressed=${state.compared != null}
        onClick=${act.compare} title="Compare other moments with this one (C)">
        ${state.compared == null ? "Compare with this moment" : "Stop comparing"}</button>
      <span class="together" role="group" aria-label="Length of time that is drawn">
        ${button("−", "Longer (minus key)", () => act.zoom(2))}
        ${button("+", "Shorter (plus key)", () => act.zoom(0.5))}
        <button type="button" onClick=${act.all}>All</button>
      </span>
    </div>`;
}

/** What moment is shown, in words. */
function place(live, { moment: chosen }, moment, begins, ends) {
  if (!live) return `${lasting(moment - begins)} of ${lasting(ends - begins)}`;
  if (chosen === null) return `Now, ${clock(moment)}`;
  return `The past: ${clock(moment)}, ${lasting(ends - moment)} ago`;
}

function Line({ x, at, name }) {
  if (at < x.from || at > x.to) return null;
  return html`<div class="line ${name}" style=${{ left: `${x(at)}px` }}></div>`;
}

function Band({ x, from, to }) {
  const [left, right] = [Math.min(from, to), Math.max(from, to)].map(x);
  return html`<div class="band" style=${{ left: `${left}px`, width: `${right - left}px` }}></div>`;
}

function onKey(event, act, moment) {
  const keys = {
    ArrowLeft: () => act.step(-1), ArrowDown: () => act.step(-1),
    ArrowRight: () => act.step(1), ArrowUp: () => act.step(1),
    PageDown: () => act.go(moment - PAGE), PageUp: () => act.go(moment + PAGE),
    Home: () => act.go(0), End: () => act.go(Infinity),
    " ": act.play, "+": () => act.zoom(0.5), "-": () => act.zoom(2), Escape: act.now,
  };
  const does = keys[event.key];
  if (!does || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  does();
}

/** Keys that do the same wherever one is on the page, but where one writes. */
function useKeys(keys) {
  const now = useRef(keys);
  now.current = keys;
  useEffect(() => {
    const onKeyDown = (event) => {
      const writes = event.target.closest?.("input, textarea, select, [contenteditable]");
      if (writes || event.ctrlKey || event.metaKey || event.altKey) return;
      now.current[event.key]?.();
    };
    document.addEventListener("keydown", onKeyDown);
    return () => document.removeEventListener("keydown", onKeyDown);
  }, []);
}

/** What a pointer does on the tracks: tell what is there, choose it, drag the moment; and zoom. */
function usePointing({ track, films, x, act, point }) {
  const pressed = useRef(null);
  const now = useRef(null);
  const find = (event) => laneAt(track, event, films, x);
  now.current = { x, act, px: (event) => event.clientX - track.getBoundingClientRect().left };

  useEffect(() => {
    if (!track) return undefined;
    const onWheel = (event) => {
      event.preventDefault();
      const { x: scaled, act: does, px } = now.current;
      const along = event.shiftKey ? event.deltaY : event.deltaX;
      if (Math.abs(along) > Math.abs(event.shiftKey ? 0 : event.deltaY)) {
        does.pan(scaled.at(along) - scaled.from);
      } else does.zoom(1.002 ** event.deltaY, scaled.at(px(event)));
    };
    track.addEventListener("wheel", onWheel, { passive: false });
    return () => track.removeEventListener("wheel", onWheel);
  }, [track]);

  return {
    onPointerDown: (event) => {
      if (event.button !== 0) return;
      track.setPointerCapture(event.pointerId);
      pressed.current = { at: event.clientX, found: find(event), dragged: false };
    },
    onPointerMove: (event) => {
      const press = pressed.current;
      if (press) press.dragged ||= Math.abs(event.clientX - press.at) > STILL;
      if (press?.dragged) act.go(x.at(now.current.px(event)));
      point(press?.dragged ? null : find(event));
    },
    onPointerUp: () => {
      const press = pressed.current;
      pressed.current = null;
      if (press && !press.dragged) act.choose(press.found);
    },
    onPointerCancel: () => { pressed.current = null; },
    onPointerLeave: () => point(null),
  };
}

/** The width that an element has. */
function useWidth(element) {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    if (!element) return undefined;
    const observer = new ResizeObserver(([{ contentRect }]) => setWidth(contentRect.width));
    observer.observe(element);
    return () => observer.disconnect();
  }, [element]);
  return width;
}

/** The end of the longest film, on the line of time of the first. */
function endOf(films) {
  return films[0].begins + Math.max(...films.map((film) => film.ends - film.begins));
}

/** What was drawn while it kept up with now stays, once another moment is looked at. */
function standing(wanted, { from, to }) {
  return wanted.length === null || wanted.from !== null ? wanted : { from, length: to - from };
}

/** The moment of the change before, or of the next one; undefined: there is none. */
function changeBeside(films, moment, by) {
  const all = films.flatMap((film) => {
    const later = film.begins - films[0].begins;
    const changes = film.history.changes.map((at) => at - later);
    return by > 0 ? changes.find((at) => at > moment) : changes.findLast((at) => at < moment);
  }).filter((at) => at !== undefined);
  if (!all.length) return undefined;
  return by > 0 ? Math.min(...all) : Math.max(...all);
}
