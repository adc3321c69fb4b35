/** Timeline of events and migrations, which selects and plays the shown moment. */

import { clock, including, lasting, panned, stretch, zoomed } from "./formats.js";
import { laneAt, Lanes, Told, toldAt } from "./timeline_rows.js";
import { scale } from "./tracks.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/htm-preact.js";

/** First and longest time range of a live page, in seconds. */
const [RECENT, LONGEST] = [600, 3600];
/** Seconds of a step by the Page keys. */
const PAGE = 10;
/** Pixels that a pointer moves before it drags. */
const STILL = 3;

export function Timeline({ recordings, titles = [], state, set }) {
  const live = state.connection !== "recorded";
  const { begins } = recordings[0];
  const ends = Math.max(...recordings.map((recording) => recording.ends));
  const moment = state.moment ?? ends;
  const whole = { from: null, length: live ? LONGEST : null };
  const [wanted, want] = useState(live ? { from: null, length: RECENT } : whole);
  const drawn = stretch(wanted, begins, ends);
  const [track, setTrack] = useState(null);
  const width = useWidth(track);
  const x = scale(drawn, width, ends);
  const [pointed, point] = useState(null);

  /** Show a moment; on a live page, the last moment means now. */
  function go(at, more = {}) {
    const now = live && at >= ends;
    const to = Math.max(begins, Math.min(at, ends));
    set({ ...more, moment: now ? null : to });
    want(now ? { ...wanted, from: null } : including(drawn, to, begins, ends));
  }

  // A recording lasts a quarter of an hour or more: play it at the highest speed.
  const first = live ? SPEEDS[0] : SPEEDS.at(-1);
  const player = usePlaying({ moment, ends, go, first });
  const act = {
    go,
    by: (seconds) => go(moment + seconds),
    step: (by) => go(changeBeside(recordings, moment, by)),
    now() {
      player.setPlaying(false);
      go(ends);
    },
    play() {
      if (!player.playing && moment >= ends) go(live ? Math.max(begins, drawn.from) : begins);
      player.setPlaying(!player.playing);
    },
    zoom(factor, around = moment) {
      const length = Math.min((drawn.to - drawn.from) * factor, LONGEST);
      if (live && state.moment === null) want({ from: null, length });
      else want(zoomed(drawn, factor, around, begins, ends));
    },
    pan: (seconds) => want(panned(drawn, seconds, begins, ends)),
    all: () => want(whole),
  };
  useKeys(act);
  const pointing = usePointing({ track, recordings, x, act, point });

  if (recordings[0].empty) return null;
  const now = live && state.moment === null;
  const place = !live ? `${lasting(moment - begins)} of ${lasting(ends - begins)}`
    : now ? `Now, ${clock(moment)}`
      : `The past: ${clock(moment)}, ${lasting(ends - moment)} ago`;
  return html`
    <footer class="timeline ${live && !now ? "past" : ""}" aria-label="Timeline">
      <${Controls} ...${{ live, now, place, player, act }} />
      <div class="tracks" role="slider" tabindex="0" aria-label="Moment that is shown"
        aria-valuemin="0" aria-valuemax=${Math.round(ends - begins)}
        aria-valuenow=${Math.round(moment - begins)}
        aria-valuetext=${[place, ...toldAt(recordings[0], moment)].join(". ")}
        ref=${setTrack} ...${pointing}>
        <${Lanes} ...${{ recordings, titles, x, width, live }} />
        <${Over} x=${x} moment=${moment} name="moment" />
        ${pointed && html`
          <${Over} x=${x} moment=${pointed.moment} name="pointed" />
          <${Told} pointed=${pointed} width=${width} />`}
      </div>
    </footer>`;
}

function Controls({ live, now, place, player, act }) {
  const button = (text, onClick, more) => html`
    <button onClick=${onClick} ...${more}>${text}</button>`;
  const sign = (text, title, onClick, more) => (
    button(text, onClick, { title, "aria-label": title, ...more }));
  return html`
    <div class="controls">
      <span class="together">
        ${sign("‹", "To the change before (left arrow)", () => act.step(-1))}
        ${button(player.playing ? "Pause" : "Play", act.play, { class: "play" })}
        ${sign("›", "To the next change (right arrow)", () => act.step(1))}
      </span>
      <span class="together" role="group" aria-label="Speed">
        ${SPEEDS.map((speed) => sign(`${speed}×`, `Play ${speed} times as fast`,
          () => player.setSpeed(speed), { "aria-pressed": player.speed === speed }))}
      </span>
      <p class="place">${place}</p>
      ${live && button(now ? "Now" : "Back to now", act.now,
        { class: "now", disabled: now, title: "Back to now (N)" })}
      <span class="together" role="group" aria-label="Time range">
        ${sign("−", "Longer (minus key)", () => act.zoom(2))}
        ${sign("+", "Shorter (plus key)", () => act.zoom(0.5))}
        ${button("All", act.all)}
      </span>
    </div>`;
}

/** Line at a moment over all rows, if the moment is drawn. */
function Over({ x, name, moment }) {
  if (moment < x.from || moment > x.to) return null;
  return html`<div class="over ${name}" style=${{ left: `${x(moment)}px` }}></div>`;
}

const back = (act) => act.step(-1);
const on = (act) => act.step(1);
/** Actions of keys on the tracks. */
const KEYS = {
  ArrowLeft: back, ArrowDown: back, ArrowRight: on, ArrowUp: on,
  PageDown: (act) => act.by(-PAGE), PageUp: (act) => act.by(PAGE),
  Home: (act) => act.go(0), End: (act) => act.now(), Escape: (act) => act.now(),
  " ": (act) => act.play(), "+": (act) => act.zoom(0.5), "-": (act) => act.zoom(2),
};
/** Actions of letters on the timeline, and on a page without focus. */
const LETTERS = { n: (act) => act.now() };

function useKeys(act) {
  const now = useRef();
  now.current = act;
  useEffect(() => {
    const onKeyDown = (event) => {
      const { target, key } = event;
      const free = target === document.body || target.closest(".timeline");
      const does = (target.closest(".tracks") && KEYS[key]) || (free && LETTERS[key]);
      if (!does || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      does(now.current);
    };
    document.addEventListener("keydown", onKeyDown);
    return () => document.removeEventListener("keydown", onKeyDown);
  }, []);
}

/** Handlers of the pointer on the tracks: hints, selection, dragging the moment, and zoom. */
function usePointing({ track, recordings, x, act, point }) {
  const pressed = useRef(null);
  const find = (event) => laneAt(track, event, recordings, x);
  const moment = (event) => x.at(event.clientX - track.getBoundingClientRect().left);
  return {
    onWheel(event) {
      event.preventDefault();
      const { deltaX, deltaY, shiftKey } = event;
      const along = shiftKey ? deltaX || deltaY : deltaX;
      if (shiftKey || Math.abs(along) > Math.abs(deltaY)) act.pan(x.at(along) - x.from);
      else act.zoom(1.002 ** deltaY, moment(event));
    },
    onPointerDown(event) {
      if (event.button !== 0) return;
      track.setPointerCapture(event.pointerId);
      pressed.current = { at: event.clientX, found: find(event), dragged: false };
    },
    onPointerMove(event) {
      const press = pressed.current;
      if (press) press.dragged ||= Math.abs(event.clientX - press.at) > STILL;
      if (press?.dragged) act.go(moment(event));
      point(press?.dragged ? null : find(event));
    },
    onPointerUp() {
      const { dragged, found } = pressed.current ?? { dragged: true };
      pressed.current = null;
      if (!dragged) act.go(found.moment, found.chosen && { chosen: found.chosen });
    },
    onPointerCancel: () => { pressed.current = null; },
    onPointerLeave: () => point(null),
  };
}

/** Return the width of an element, kept up to date. */
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

/** Return the moment of the previous or next change; infinite if there is none. */
function changeBeside(recordings, moment, by) {
  const all = recordings.flatMap((recording) => recording.history.changes).filter((at) => by * (at - moment) > 0);
  return by > 0 ? Math.min(...all) : Math.max(...all);
}

/** Seconds of recording per second. */
const SPEEDS = [1, 4, 16];
/** Longest time between two frames in seconds: a hidden page skips nothing. */
const STEP = 0.25;

/**
 * Play from the shown moment to the end: call `go` with a moment per frame. `first`: initial speed.
 */
function usePlaying({ moment, ends, go, first }) {
  const [playing, setPlaying] = useState(false);
  const [speed, setSpeed] = useState(first);
  const now = useRef(null);
  now.current = { moment, ends, go, speed };

  useEffect(() => {
    if (!playing) return undefined;
    let last = performance.now();
    let asked = requestAnimationFrame(function next(time) {
      const { moment: at, ends: until, go: goTo, speed: fast } = now.current;
      const reached = at + fast * Math.max(0, Math.min(STEP, (time - last) / 1000));
      last = time;
      goTo(reached);
      if (reached >= until) setPlaying(false);
      else asked = requestAnimationFrame(next);
    });
    return () => cancelAnimationFrame(asked);
  }, [playing]);

  return { playing, setPlaying, speed, setSpeed };
}
