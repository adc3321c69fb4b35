/**
 * What part of the picture is seen: by wheel, pinch, drag, and keys.
 *
 * While it changes, the compositor scales what is drawn; once it rests, that is drawn anew.
 */

const MOST = 40;
/** Milliseconds without change after which it rests. */
const REST = 250;
/** Scaled by more than this, it is drawn anew even before. */
const BLURRED = 2.5;
/** Pixels by which a pointer has to move for it to be a drag. */
const DRAG = 5;

export class Zoom {
  scale = 1;
  #x = 0;
  #y = 0;
  #drawnAt = 1;
  #resting = 0;
  #pointers = new Map();
  #dragged = false;
  /** Where the host is, measured once for as long as it moves: each time costs a layout. */
  #rect = null;
  #stopping = new AbortController();

  /** `target` is moved within `host`; `onRest` hears that it is to be drawn anew. */
  constructor(host, target, onRest) {
    Object.assign(this, { host, target, onRest });
    const { signal } = this.#stopping;
    const on = (kind, heard, more) => host.addEventListener(kind, heard, { signal, ...more });
    on("wheel", (event) => this.#wheeled(event), { passive: false });
    on("pointerdown", (event) => this.#pressed(event));
    on("pointermove", (event) => this.#moved(event));
    for (const kind of ["pointerup", "pointercancel", "pointerleave"]) {
      on(kind, (event) => this.#pointers.delete(event.pointerId));
    }
    on("click", (event) => this.#dragged && event.stopPropagation(), { capture: true });
  }

  close() {
    clearTimeout(this.#resting);
    this.#stopping.abort();
  }

  /** Larger by a factor, around a point of the host. */
  by(factor, [px, py] = [this.rect.width / 2, this.rect.height / 2]) {
    const scale = Math.min(MOST, Math.max(1, this.scale * factor));
    const kept = scale / this.scale;
    this.#to(scale, px - (px - this.#x) * kept, py - (py - this.#y) * kept);
  }

  /** All of it. */
  whole() {
    this.#to(1, 0, 0);
  }

  /** So that a box of the picture is seen, at least so many pixels wide. */
  reveal({ x, y, w, h }, least = 0) {
    const [left, top, right, bottom] = this.seen();
    const inside = x >= left && y >= top && x + w <= right && y + h <= bottom;
    if (inside && w * this.scale >= least) return;
    const scale = Math.min(MOST, Math.max(this.scale, least / w));
    const { width, height } = this.rect;
    this.#to(scale, width / 2 - scale * (x + w / 2), height / 2 - scale * (y + h / 2));
  }

  /** What is seen of the picture: left, top, right, bottom. */
  seen() {
    const { scale, rect: { width, height } } = this;
    const [left, top] = [-this.#x / scale, -this.#y / scale];
    return [left, top, left + width / scale, top + height / scale];
  }

  #to(scale, x, y) {
    const { width, height } = this.rect;
    this.scale = scale;
    this.#x = Math.min(0, Math.max(width * (1 - scale), x));
    this.#y = Math.min(0, Math.max(height * (1 - scale), y));
    this.target.style.willChange = "transform";
    this.target.style.transform = `translate(${this.#x}px, ${this.#y}px) scale(${scale})`;
    // At full size a finger that is drawn across scrolls the page.
    this.host.style.touchAction = scale > 1 ? "none" : "pan-y";
    clearTimeout(this.#resting);
    const blurred = Math.max(scale / this.#drawnAt, this.#drawnAt / scale) > BLURRED;
    if (blurred) this.#rest();
    else this.#resting = setTimeout(() => this.#rest(), REST);
  }

  /** Where the host is on the screen. */
  get rect() {
    this.#rect ??= this.host.getBoundingClientRect();
    return this.#rect;
  }

  #rest() {
    this.#rect = null;
    this.#drawnAt = this.scale;
    this.target.style.willChange = "";
    this.onRest();
  }

  #wheeled(event) {
    if (this.scale === 1 && event.deltaY > 0) return;
    event.preventDefault();
    if (!this.target.style.willChange) this.#rect = null;
    const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
    const speed = event.ctrlKey ? 0.01 : 0.002;
    this.by(Math.exp(-event.deltaY * lines * speed), this.#point(event));
  }

  #pressed(event) {
    this.#dragged = false;
    this.#rect = null;
    this.#pointers.set(event.pointerId, this.#point(event));
  }

  #moved(event) {
    const before = this.#pointers.get(event.pointerId);
    if (!before) return;
    const now = this.#point(event);
    const moved = Math.hypot(now[0] - before[0], now[1] - before[1]);
    if (!this.#dragged && moved < DRAG) return;
    this.#dragged = true;
    const other = [...this.#pointers].find(([id]) => id !== event.pointerId)?.[1];
    this.#pointers.set(event.pointerId, now);
    if (other) {
      const apart = (point) => Math.hypot(point[0] - other[0], point[1] - other[1]) || 1;
      this.by(apart(now) / apart(before), other);
    } else if (this.scale > 1) {
      this.#to(this.scale, this.#x + now[0] - before[0], this.#y + now[1] - before[1]);
    }
  }

  #point({ clientX, clientY }) {
    const { left, top } = this.rect;
    return [clientX - left, clientY - top];
  }
}
