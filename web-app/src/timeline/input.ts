// Mouse, wheel, touch and keys.

import type { Way } from "./types";

/** What a timeline can be told. Times of the mouse are pixels of the canvas. */
export interface Actions {
  pan(pixels: number): void;
  scroll(pixels: number): boolean;
  zoom(by: number, x?: number): void;
  measure(from: number, to: number): void;
  click(x: number, y: number): void;
  double(x: number, y: number): void;
  hover(x: number, y: number): void;
  leave(): void;
  jump(x: number): void;
  fit(): void;
  all(): void;
  measureSelected(): void;
  move(way: Way): void;
  clear(): void;
  search(): void;
}

const STEP = 120; // pixels that a key moves
const CLOSER = 0.7;
const STILL = 4; // pixels below which a drag is a click

export function listenTo(canvas: HTMLCanvasElement, map: HTMLCanvasElement, actions: Actions): void {
  dragging(canvas, actions);
  wheel(canvas, actions);
  wheel(map, actions);
  canvas.addEventListener("pointerleave", () => actions.leave());
  canvas.addEventListener("dblclick", (event) => actions.double(event.offsetX, event.offsetY));
  canvas.addEventListener("keydown", (event) => {
    if (key(event, actions)) {
      event.preventDefault();
      event.stopPropagation();
    }
  });
  let held = false;
  map.addEventListener("pointerdown", (event) => {
    held = true;
    map.setPointerCapture(event.pointerId);
    actions.jump(event.offsetX);
  });
  map.addEventListener("pointermove", (event) => held && actions.jump(event.offsetX));
  map.addEventListener("pointerup", () => (held = false));
  map.addEventListener("pointercancel", () => (held = false));
}

function dragging(canvas: HTMLCanvasElement, actions: Actions): void {
  let from: { x: number; y: number; lastX: number; lastY: number; measures: boolean; moved: boolean } | null = null;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    canvas.focus({ preventScroll: true });
    canvas.setPointerCapture(event.pointerId);
    from = { x: event.offsetX, y: event.offsetY, lastX: event.offsetX, lastY: event.offsetY, measures: event.shiftKey, moved: false };
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!from) return actions.hover(event.offsetX, event.offsetY);
    from.moved ||= Math.hypot(event.offsetX - from.x, event.offsetY - from.y) >= STILL;
    if (!from.moved) return;
    if (from.measures) actions.measure(from.x, event.offsetX);
    else {
      actions.pan(from.lastX - event.offsetX);
      if (event.pointerType !== "touch") actions.scroll(from.lastY - event.offsetY);
    }
    [from.lastX, from.lastY] = [event.offsetX, event.offsetY];
  });
  canvas.addEventListener("pointerup", (event) => {
    if (from && !from.moved) actions.click(event.offsetX, event.offsetY);
    from = null;
  });
  canvas.addEventListener("pointercancel", () => (from = null));
}

function wheel(canvas: HTMLCanvasElement, actions: Actions): void {
  canvas.addEventListener(
    "wheel",
    (event) => {
      const size = event.deltaMode === 1 ? 16 : 1;
      if (event.ctrlKey || event.metaKey) actions.zoom(Math.exp((event.deltaY * size) / 300), event.offsetX);
      else if (event.shiftKey) actions.pan((event.deltaY || event.deltaX) * size);
      else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) actions.pan(event.deltaX * size);
      else if (!actions.scroll(event.deltaY * size)) return; // the page scrolls on
      event.preventDefault();
    },
    { passive: false },
  );
}

function key(event: KeyboardEvent, actions: Actions): boolean {
  if (event.ctrlKey || event.metaKey || event.altKey) return false;
  const done: Record<string, () => void> = {
    w: () => actions.zoom(CLOSER), "+": () => actions.zoom(CLOSER), "=": () => actions.zoom(CLOSER),
    s: () => actions.zoom(1 / CLOSER), "-": () => actions.zoom(1 / CLOSER),
    a: () => actions.pan(-STEP), d: () => actions.pan(STEP),
    f: () => actions.fit(), m: () => actions.measureSelected(), "0": () => actions.all(), Home: () => actions.all(),
    ArrowRight: () => actions.move("next"), ArrowLeft: () => actions.move("previous"),
    ArrowUp: () => actions.move("out"), ArrowDown: () => actions.move("in"), Enter: () => actions.move(""),
    Escape: () => actions.clear(), "/": () => actions.search(),
    PageDown: () => void actions.scroll(300), PageUp: () => void actions.scroll(-300),
  };
  const act = done[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  act?.();
  return Boolean(act);
}
