/** Going through a film by itself. */

import { useEffect, useRef, useState } from "./vendor/htm-preact.js";

/** Seconds of film in a second. */
export const SPEEDS = [1, 4, 16];
/** Seconds at most from one picture to the next: nothing is skipped when the page was hidden. */
const STEP = 0.25;

/**
 * `go` to moments one after the other, from the present one to the end; and what starts that.
 * `first`: the speed of the first time.
 */
export function usePlaying({ moment, ends, go, first }) {
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
