// Above the tracks: the whole run with the window in it, and the axis.

import { categoryFill, fillOf, type Theme } from "./palette";
import { marks, Scale } from "./scale";
import { isSpans, type Frame, type SpanFrame, type Window } from "./types";
import { quantity } from "../format/format";

export const MAP = 30;
export const AXIS = 24;
const ROOM = 80; // pixels that the length of the window takes left of the axis

export interface Head {
  scale: Scale;
  whole: Scale;
  overview: Frame | null;
  theme: Theme;
  measured: Window | null;
  held: Window | null;
}

export function paintHead(context: CanvasRenderingContext2D, head: Head, width: number): void {
  const { theme } = head;
  context.fillStyle = theme.card;
  context.fillRect(0, 0, width, MAP);
  context.fillStyle = theme.page;
  context.fillRect(0, MAP, width, AXIS);
  context.textBaseline = "middle";
  map(context, head);
  axis(context, head, width);
}

function map(context: CanvasRenderingContext2D, { whole, scale, overview, theme }: Head): void {
  const found = overview?.tracks.find((track): track is SpanFrame => isSpans(track) && track.drawn + track.merged > 0);
  const lane = found?.lanes[0];
  if (overview && lane) {
    (lane.start ?? []).forEach((start, at) => {
      const [name, category] = overview.names[lane.name![at]!]!;
      context.fillStyle = category === "step" && at % 2 ? categoryFill("annotation", theme.dark) : fillOf(category, name, theme.dark).fill;
      const x = whole.x(start);
      context.fillRect(x, 7, Math.max(1, whole.x(start + lane.length![at]!) - x - 0.5), MAP - 14);
    });
    const size = (overview.end - overview.start) / overview.width;
    (lane.pixel ?? []).forEach((pixel, at) => {
      const [name, category] = overview.names[lane.longest![at]!]!;
      context.fillStyle = fillOf(category, name, theme.dark).fill;
      context.globalAlpha = 0.3 + 0.6 * Math.min(1, lane.busy![at]! / size);
      context.fillRect(whole.x(overview.start + pixel * size), 7, 1.2, MAP - 14);
      context.globalAlpha = 1;
    });
  }
  const [from, to] = [whole.x(scale.window.start), whole.x(scale.window.end)];
  context.fillStyle = theme.page;
  context.globalAlpha = 0.6;
  context.fillRect(whole.left, 2, from - whole.left, MAP - 4);
  context.fillRect(to, 2, whole.left + whole.width - to, MAP - 4);
  context.globalAlpha = 1;
  context.strokeStyle = theme.focus;
  context.lineWidth = 2;
  context.strokeRect(from, 2, Math.max(to - from, 3), MAP - 4);
}

function axis(context: CanvasRenderingContext2D, { scale, theme, measured }: Head, width: number): void {
  context.fillStyle = theme.line;
  context.fillRect(0, MAP + AXIS - 1, width, 1);
  context.font = `11px ${theme.text}`;
  context.fillStyle = theme.quiet;
  if (scale.left >= ROOM) context.fillText(`↔ ${quantity(scale.window.end - scale.window.start, "ns")}`, 8, MAP + AXIS / 2);
  context.save();
  context.beginPath();
  context.rect(scale.left, MAP, scale.width, AXIS);
  context.clip();
  for (const mark of marks(scale, 90)) {
    const x = Math.round(scale.x(mark.time));
    context.fillStyle = theme.line;
    context.fillRect(x, MAP + AXIS - 7, 1, 7);
    context.fillStyle = theme.quiet;
    context.fillText(mark.text, x + 4, MAP + AXIS / 2 - 1);
  }
  if (measured) {
    const text = quantity(measured.end - measured.start, "ns");
    const middle = (Math.max(scale.x(measured.start), scale.left) + Math.min(scale.x(measured.end), scale.left + scale.width)) / 2;
    context.font = `600 11.5px ${theme.text}`;
    const wide = context.measureText(text).width;
    const x = Math.min(Math.max(middle - wide / 2, scale.left + 6), scale.left + scale.width - wide - 6);
    context.fillStyle = theme.focus;
    context.fillRect(x - 6, MAP + 2, wide + 12, AXIS - 5);
    context.fillStyle = theme.page;
    context.fillText(text, x, MAP + AXIS / 2);
  }
  context.restore();
}
