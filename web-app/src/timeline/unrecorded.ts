// Stretches of a track in which nothing was recorded: hatched, as an empty lane would say that nothing ran.

import type { TrackRow } from "./layout";
import type { Picture } from "./paint";
import type { Track, Window } from "./types";

const APART = 7; // px between two lines of the hatching
const ROOM = 90; // px in which the words fit

/** The stretches of a window in which a track could not be recorded. */
export function unrecorded(track: Track, window: Window): [number, number][] {
  if (!track.recorded) return [];
  const found: [number, number][] = [];
  let from = window.start;
  for (const [start, end] of track.recorded) {
    if (end <= window.start) continue;
    if (start >= window.end) break;
    if (start > from) found.push([from, start]);
    from = Math.max(from, end);
  }
  if (from < window.end) found.push([from, window.end]);
  return found;
}

/** Whether nothing of a window could be recorded. */
export function unrecordedHere(track: Track, window: Window): boolean {
  const [first] = unrecorded(track, window);
  return first !== undefined && first[0] <= window.start && first[1] >= window.end;
}

/** Hatch them on a track, with a word about it where there is room. */
export function hatch(context: CanvasRenderingContext2D, { scale, theme, words }: Picture, row: TrackRow): void {
  const [top, bottom] = [row.top + row.head + 1, row.top + row.height - 2];
  for (const [start, end] of unrecorded(row.track, scale.window)) {
    const [from, to] = [Math.max(scale.x(start), scale.left), Math.min(scale.x(end), scale.left + scale.width)];
    if (to - from < 1) continue;
    context.save();
    context.beginPath();
    context.rect(from, top, to - from, bottom - top);
    context.clip();
    context.fillStyle = theme.card;
    context.fillRect(from, top, to - from, bottom - top);
    context.strokeStyle = theme.line;
    context.lineWidth = 1;
    context.beginPath();
    for (let x = Math.floor(from / APART) * APART - (bottom - top); x < to; x += APART) {
      context.moveTo(x, bottom);
      context.lineTo(x + bottom - top, top);
    }
    context.stroke();
    context.restore();
    if (to - from >= ROOM) tell(context, words.unrecorded, from, to, (top + bottom) / 2, theme);
  }
}

function tell(context: CanvasRenderingContext2D, text: string, from: number, to: number, y: number, theme: Picture["theme"]): void {
  context.font = `11px ${theme.text}`;
  const wide = context.measureText(text).width;
  const x = (from + to - wide) / 2;
  context.fillStyle = theme.card;
  context.fillRect(x - 4, y - 8, wide + 8, 16);
  context.fillStyle = theme.quiet;
  context.fillText(text, x, y);
}
