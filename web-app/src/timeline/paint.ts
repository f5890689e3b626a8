// The tracks on a canvas.

import { quantity } from "../format/format";
import type { Unit } from "../document/types";
import { LANE, laneTop, type GroupRow, type Layout, type TrackRow } from "./layout";
import { fillOf, type Theme } from "./palette";
import { marks, Scale } from "./scale";
import { isSpans, type Frame, type LaneFrame, type Ref, type SpanFrame, type ValueFrame, type Window } from "./types";
import { hatch, unrecordedHere } from "./unrecorded";
import type { TimelineWords } from "./words";

/** All that a picture depends on. */
export interface Picture {
  layout: Layout;
  scale: Scale;
  /** From the coarsest to the newest: a later one covers what is below it. */
  frames: readonly Frame[];
  theme: Theme;
  words: TimelineWords;
  selected: { ref: Ref; end: number } | null;
  hovered: Hit | null;
  /** Names with this in them are marked. */
  marked: string;
  /** Categories of the spans that make a finding; none: all look alike. */
  lit: ReadonlySet<string>;
  measured: Window | null;
  held: Window | null;
  steps: readonly number[];
}

/** What is below a point: a span, or a block of merged ones. */
export interface Hit {
  row: TrackRow;
  lane: number;
  start: number;
  end: number;
  name: string;
  category: string;
  count: number;
  busy: number;
}

const NARROWEST_TEXT = 28;
const BETWEEN = 0.6; // pixels: a span that is drawn by itself fits in no less, and ends a run of merged ones
const FONT = 11.5;
const BACK = 0.22; // of the color of a span that is not looked for

export function paint(context: CanvasRenderingContext2D, picture: Picture, scroll: number, width: number, height: number): void {
  const { theme } = picture;
  context.fillStyle = theme.page;
  context.fillRect(0, 0, width, height);
  context.save();
  context.translate(0, -scroll);
  context.textBaseline = "middle";
  const seen = picture.layout.rows.filter((row) => row.top + row.height > scroll && row.top < scroll + height);
  context.save();
  context.beginPath();
  context.rect(picture.scale.left, scroll, picture.scale.width, height);
  context.clip();
  grid(context, picture, scroll, height);
  for (const row of seen) if (row.kind === "track") track(context, picture, row);
  edges(context, picture, scroll, height);
  measure(context, picture, scroll, height);
  outline(context, picture);
  context.restore();
  for (const row of seen) {
    if (row.kind === "group") group(context, picture, row, width);
    else label(context, picture, row);
  }
  context.restore();
}

function grid(context: CanvasRenderingContext2D, { scale, theme, steps }: Picture, scroll: number, height: number): void {
  context.fillStyle = theme.line;
  context.globalAlpha = 0.55;
  for (const mark of marks(scale, 90)) context.fillRect(Math.round(scale.x(mark.time)), scroll, 1, height);
  context.globalAlpha = 1;
  if (steps.length < 2 || scale.width / Math.max(1, steps.filter((time) => time >= scale.window.start && time <= scale.window.end).length) < 24) return;
  context.fillStyle = theme.quiet;
  context.globalAlpha = 0.5;
  for (const time of steps) context.fillRect(Math.round(scale.x(time)), scroll, 1, height);
  context.globalAlpha = 1;
}

/** How strongly a span is painted: what is not looked for stands back. */
function strength({ marked, lit }: Picture, name: string, category: string): number {
  const back = marked ? !name.toLowerCase().includes(marked) : lit.size > 0 && !lit.has(category);
  return back ? BACK : 1;
}

/** Each frame paints where no later one does. */
function track(context: CanvasRenderingContext2D, picture: Picture, row: TrackRow): void {
  const { scale } = picture;
  hatch(context, picture, row);
  const having = picture.frames.flatMap((frame) => {
    const found = frame.tracks.find((one) => one.id === row.track.id);
    return found ? [{ frame, found }] : [];
  });
  for (const [place, { frame, found }] of having.entries()) {
    context.save();
    context.beginPath();
    for (const [from, to] of outside(scale, having.slice(place + 1).map((one) => one.frame))) context.rect(from, row.top, to - from, row.height);
    context.clip();
    if (isSpans(found)) spans(context, picture, row, frame, found);
    else values(context, picture, row, frame, found);
    context.restore();
  }
}

/** The stretches of the picture, in pixels, that none of some frames covers. */
function outside(scale: Scale, frames: readonly Frame[]): [number, number][] {
  let left: [number, number][] = [[scale.left, scale.left + scale.width]];
  for (const frame of frames) {
    const [from, to] = [scale.x(frame.start), scale.x(frame.end)];
    left = left.flatMap(([one, other]) => [[one, Math.min(other, from)], [Math.max(one, to), other]] as [number, number][]).filter(([one, other]) => other > one);
  }
  return left;
}

function spans(context: CanvasRenderingContext2D, picture: Picture, row: TrackRow, frame: Frame, found: SpanFrame): void {
  context.font = `${FONT}px ${picture.theme.text}`;
  for (const lane of found.lanes) {
    if (row.folded && lane.lane > 0) continue;
    merged(context, picture, row, frame, lane);
    singles(context, picture, row, frame, lane);
  }
}

function singles(context: CanvasRenderingContext2D, picture: Picture, row: TrackRow, frame: Frame, lane: LaneFrame): void {
  const { scale, theme } = picture;
  const top = laneTop(row, lane.lane);
  const [first, last] = [scale.left, scale.left + scale.width];
  for (let at = 0; at < (lane.start?.length ?? 0); at++) {
    const x = scale.x(lane.start![at]!);
    const end = scale.x(lane.start![at]! + lane.length![at]!);
    if (end < first - 1 || x > last) continue;
    const [name, category] = frame.names[lane.name![at]!]!;
    const { fill, text } = fillOf(category, name, theme.dark);
    const wide = Math.max(end - x, 1);
    context.globalAlpha = strength(picture, name, category);
    context.fillStyle = fill;
    context.fillRect(x, top, wide > 3 ? wide - 0.7 : wide, LANE - 2);
    const from = Math.max(x, first);
    const room = Math.min(end, last) - from - 6;
    if (room >= NARROWEST_TEXT) {
      context.fillStyle = text;
      context.fillText(fitted(context, shortName(name, category), room), from + 3, top + LANE / 2 - 0.5);
    }
  }
  context.globalAlpha = 1;
}

/** Merged spans stand lower, as high as they are dense, and say how many they are where there is room. */
function merged(context: CanvasRenderingContext2D, picture: Picture, row: TrackRow, frame: Frame, lane: LaneFrame): void {
  const { scale, theme, words } = picture;
  const [top, size] = [laneTop(row, lane.lane), LANE - 2];
  const perPixel = (frame.end - frame.start) / frame.width;
  const [first, last] = [scale.left, scale.left + scale.width];
  let run = null as { from: number; to: number; count: number } | null;
  const close = () => {
    if (!run) return;
    const text = `${run.count.toLocaleString("en")} ${words.events}`;
    const [from, to] = [Math.max(run.from, first), Math.min(run.to, last)];
    const wide = context.measureText(text).width;
    if (to - from > wide + 24 && run.count > 1) {
      const middle = (from + to - wide) / 2;
      context.globalAlpha = 0.82;
      context.fillStyle = theme.page;
      context.fillRect(middle - 4, top + 1, wide + 8, size - 2);
      context.globalAlpha = 1;
      context.fillStyle = theme.ink;
      context.fillText(text, middle, top + LANE / 2 - 0.5);
    }
    run = null;
  };
  for (let at = 0; at < (lane.pixel?.length ?? 0); at++) {
    const start = frame.start + lane.pixel![at]! * perPixel;
    const [x, end] = [scale.x(start), scale.x(start + perPixel)];
    if (end < first || x > last) continue;
    const [name, category] = frame.names[lane.longest![at]!]!;
    const share = Math.min(1, lane.busy![at]! / perPixel);
    const high = Math.max(3, size * (0.25 + 0.75 * share));
    context.globalAlpha = Math.min(strength(picture, name, category), 0.6 + 0.3 * share);
    context.fillStyle = fillOf(category, name, theme.dark).fill;
    context.fillRect(x, top + size - high, Math.max(end - x, 1) + 0.25, high);
    if (run && x - run.to > BETWEEN) close();
    run = { from: run?.from ?? x, to: end, count: (run?.count ?? 0) + lane.count![at]! };
  }
  context.globalAlpha = 1;
  close();
}

function values(context: CanvasRenderingContext2D, picture: Picture, row: TrackRow, frame: Frame, found: ValueFrame): void {
  const { scale, theme } = picture;
  const most = highest(row, found);
  const [bottom, size] = [row.top + row.height - 4, row.height - row.head - 8];
  const perPixel = (frame.end - frame.start) / frame.width;
  const y = (value: number) => bottom - (Math.max(0, value) / most) * size;
  const color = fillOf(row.track.unit === "bytes" ? "memory" : "compute", "", theme.dark).fill;
  for (let pixel = 0; pixel < found.low.length; pixel++) {
    const [low, high] = [found.low[pixel], found.high[pixel]];
    if (low === null || low === undefined || high === null || high === undefined) continue;
    const x = scale.x(frame.start + pixel * perPixel);
    const wide = scale.x(frame.start + (pixel + 1) * perPixel) - x + 0.3;
    context.fillStyle = color;
    context.globalAlpha = 0.28;
    context.fillRect(x, y(low), wide, bottom - y(low));
    context.globalAlpha = 0.95;
    context.fillRect(x, y(high), wide, Math.max(1.2, y(low) - y(high)));
  }
  context.globalAlpha = 1;
}

function highest(row: TrackRow, found: ValueFrame): number {
  if (row.track.unit === "ratio") return 1;
  return found.high.reduce<number>((most, value) => Math.max(most, value ?? 0), 0) || 1;
}

/** Where the excerpt of a file ends. */
function edges(context: CanvasRenderingContext2D, { scale, held, theme }: Picture, scroll: number, height: number): void {
  if (!held) return;
  context.fillStyle = theme.quiet;
  for (const [from, to] of [[-Infinity, held.start], [held.end, Infinity]] as const) {
    const [one, other] = [Math.max(scale.left, from === -Infinity ? -1e9 : scale.x(from)), Math.min(scale.left + scale.width, to === Infinity ? 1e9 : scale.x(to))];
    context.globalAlpha = 0.14;
    if (other > one) context.fillRect(one, scroll, other - one, height);
  }
  context.globalAlpha = 1;
}

function measure(context: CanvasRenderingContext2D, { scale, measured, theme }: Picture, scroll: number, height: number): void {
  if (!measured) return;
  const [from, to] = [scale.x(measured.start), scale.x(measured.end)];
  context.fillStyle = theme.focus;
  context.globalAlpha = 0.12;
  context.fillRect(from, scroll, to - from, height);
  context.globalAlpha = 0.9;
  for (const x of [from, to]) context.fillRect(Math.round(x), scroll, 1, height);
  context.globalAlpha = 1;
}

function outline(context: CanvasRenderingContext2D, { layout, scale, selected, hovered, theme }: Picture): void {
  const box = (row: TrackRow, lane: number, start: number, end: number, wide: number) => {
    if (row.folded && lane > 0) return;
    const [from, to] = [Math.max(scale.x(start), scale.left - 4), Math.min(Math.max(scale.x(end), scale.x(start) + 2), scale.left + scale.width + 4)];
    context.lineWidth = wide;
    context.strokeStyle = theme.ink;
    context.strokeRect(from - 0.5, laneTop(row, lane) - 0.5, to - from + 0.5, LANE - 1);
  };
  if (hovered) box(hovered.row, hovered.lane, hovered.start, hovered.end, 1);
  const row = selected && layout.rows.find((one): one is TrackRow => one.kind === "track" && one.track.id === selected.ref.track);
  if (selected && row) box(row, selected.ref.lane, selected.ref.start, selected.end, 2);
}

function group(context: CanvasRenderingContext2D, { theme }: Picture, row: GroupRow, width: number): void {
  context.fillStyle = theme.card;
  context.fillRect(0, row.top, width, row.height - 1);
  context.fillStyle = theme.line;
  context.fillRect(0, row.top + row.height - 1, width, 1);
  context.fillStyle = theme.ink;
  context.font = `600 12px ${theme.text}`;
  const text = `${row.folded ? "▸" : "▾"} ${row.name}`;
  context.fillText(fitted(context, text, width - 12), 6, row.top + row.height / 2);
}

/** On a narrow screen: the name across it, and what is drawn of the track where that fits behind it. */
function labelAbove(context: CanvasRenderingContext2D, { theme, scale, words, frames }: Picture, row: TrackRow): void {
  const wide = scale.left + scale.width;
  context.fillStyle = theme.page;
  context.fillRect(0, row.top, wide, row.head);
  context.fillStyle = theme.line;
  context.fillRect(0, row.top + row.height - 1, wide, 1);
  const middle = row.top + row.head / 2 + 1;
  const folds = row.track.lanes > 1 ? (row.folded ? "▸ " : "▾ ") : "";
  context.font = `12px ${theme.text}`;
  context.fillStyle = theme.ink;
  const name = fitted(context, folds + row.track.name, wide - 16);
  context.fillText(name, 8, middle);
  const from = 8 + context.measureText(name).width + 10;
  const found = frames.at(-1)?.tracks.find((one) => one.id === row.track.id);
  context.font = `10.5px ${theme.text}`;
  context.fillStyle = theme.quiet;
  if (found && wide - from > 60) context.fillText(fitted(context, summary(row, found, words, scale.window), wide - from - 8), from, middle);
}

function label(context: CanvasRenderingContext2D, picture: Picture, row: TrackRow): void {
  if (row.head) return labelAbove(context, picture, row);
  const { theme, scale, words, frames } = picture;
  context.fillStyle = theme.page;
  context.fillRect(0, row.top, scale.left, row.height);
  context.fillStyle = theme.line;
  context.fillRect(0, row.top + row.height - 1, scale.left + scale.width, 1);
  context.fillRect(scale.left - 1, row.top, 1, row.height);
  const found = frames.at(-1)?.tracks.find((one) => one.id === row.track.id);
  const two = row.height >= 30;
  const folds = row.track.lanes > 1 ? (row.folded ? "▸ " : "▾ ") : "";
  context.font = `12px ${theme.text}`;
  context.fillStyle = theme.ink;
  const room = scale.left - 16;
  context.fillText(fitted(context, folds + row.track.name, room), 8, row.top + (two ? 11 : row.height / 2));
  if (!two) return;
  context.font = `10.5px ${theme.text}`;
  context.fillStyle = theme.quiet;
  context.fillText(fitted(context, found ? summary(row, found, words, scale.window) : "…", room), 8, row.top + 25);
}

/** `412 of 1,830 drawn, the rest merged`; of values their range. */
export function summary(row: TrackRow, found: SpanFrame | ValueFrame, words: TimelineWords, window: Window): string {
  if (!isSpans(found)) {
    const highs = found.high.filter((value): value is number => value !== null);
    const lows = found.low.filter((value): value is number => value !== null);
    if (!highs.length) return words.nothing;
    const unit = row.track.unit as Unit | null;
    const text = (value: number) => (["ratio", "bytes", "ns", "watts", "count"].includes(unit ?? "") ? quantity(value, unit) : `${quantity(value, null, true)}${unit ? ` ${unit}` : ""}`);
    const [low, high] = [text(lows.reduce((one, other) => Math.min(one, other))), text(highs.reduce((one, other) => Math.max(one, other)))];
    return low === high ? low : `${low} – ${high}`;
  }
  const total = found.drawn + found.merged;
  if (!total) return unrecordedHere(row.track, window) ? words.unrecorded : words.nothing;
  if (total === 1) return words.oneSpan;
  const count = (value: number) => value.toLocaleString("en");
  return found.merged ? `${count(found.drawn)} ${words.of} ${count(total)} ${words.restMerged}` : `${count(total)} ${words.spans}, ${words.allDrawn}`;
}

/** Of a kernel the function alone: `gemm` of `void lib::gemm<float, 4>(float*)`. */
export function shortName(name: string, category: string): string {
  if (category !== "compute" && category !== "communication") return name;
  const known = kernels.get(name);
  if (known !== undefined) return known;
  let made = name.replace(/^void /, "").replaceAll("(anonymous namespace)::", "");
  const end = made.search(/[<(]/);
  if (end > 0) made = made.slice(0, end);
  made = made.split("::").slice(-2).join("::");
  kernels.set(name, made);
  return made;
}

const kernels = new Map<string, string>();
const shortened = new Map<string, string>();

/** The text, or its beginning and an ellipsis, in so many pixels. */
function fitted(context: CanvasRenderingContext2D, text: string, room: number): string {
  const key = `${context.font}|${Math.floor(room)}|${text}`;
  const found = shortened.get(key);
  if (found !== undefined) return found;
  let made = text.length > 400 ? text.slice(0, 400) : text;
  if (context.measureText(made).width > room) {
    let [low, high] = [0, made.length];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (context.measureText(`${made.slice(0, middle)}…`).width <= room) low = middle;
      else high = middle - 1;
    }
    made = low ? `${made.slice(0, low)}…` : "";
  }
  if (shortened.size > 20_000) shortened.clear();
  shortened.set(key, made);
  return made;
}
