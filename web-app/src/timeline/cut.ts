// What is drawn of a lane at the resolution of a screen: as src/stepscope/timeline/frame.py does it, span by span.

import type { LaneFrame } from "./types";

/** Spans in order of time that do not overlap. */
export interface Lane {
  start: number[];
  end: number[];
  name: number[];
  /** False: spans that begin in one of a lane above and end after it. */
  nests?: boolean;
}

/** The first place from `low` on whose time is not before `time`, or, with `after`, after it. */
function search(times: readonly number[], time: number, after: boolean): number {
  let [low, high] = [0, times.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle]! < time || (after && times[middle] === time)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The places of the spans that touch a window, from the first to before the last. */
export function inside(lane: Lane, start: number, end: number): [number, number] {
  return [Math.min(search(lane.end, start, true), search(lane.start, start, false)), search(lane.start, end, false)];
}

/** Spans as wide as a pixel by themselves; of the others those that begin in one pixel merged, one alone drawn. */
export function cut(lane: Lane, number: number, start: number, end: number, width: number): LaneFrame | null {
  const [first, last] = inside(lane, start, end);
  if (first >= last) return null;
  const found = { lane: number, start: [] as number[], length: [] as number[], name: [] as number[], pixel: [] as number[], count: [] as number[], busy: [] as number[], longest: [] as number[] };
  const draw = (place: number) => {
    found.start.push(lane.start[place]!);
    found.length.push(lane.end[place]! - lane.start[place]!);
    found.name.push(lane.name[place]!);
  };
  let place = first;
  if (lane.start[place]! < start) draw(place++);
  while (place < last) {
    const pixel = Math.floor(((lane.start[place]! - start) * width) / (end - start));
    const group: number[] = [];
    let wide = -1;
    for (; place < last && Math.floor(((lane.start[place]! - start) * width) / (end - start)) === pixel; place++) {
      if ((lane.end[place]! - lane.start[place]!) * width >= end - start) wide = place;
      else group.push(place);
    }
    if (group.length === 1) draw(group[0]!);
    else if (group.length) merge(found, lane, pixel, group);
    if (wide >= 0) draw(wide);
  }
  return found;
}

function merge(found: Required<LaneFrame>, lane: Lane, pixel: number, group: readonly number[]): void {
  const length = (place: number) => lane.end[place]! - lane.start[place]!;
  const longest = group.reduce((one, other) => (length(other) >= length(one) ? other : one));
  found.pixel.push(pixel);
  found.count.push(group.length);
  found.busy.push(group.reduce((sum, place) => sum + length(place), 0));
  found.longest.push(lane.name[longest]!);
}

/** Values of equal parts of a window, as the pixels of another window see them. */
export function extremes(
  values: readonly (number | null)[], held: readonly [number, number], start: number, end: number, width: number,
  choose: (one: number, other: number) => number,
): (number | null)[] {
  const part = (held[1] - held[0]) / Math.max(values.length, 1);
  return Array.from({ length: width }, (_, pixel) => {
    const [from, to] = [start + (pixel * (end - start)) / width, start + ((pixel + 1) * (end - start)) / width];
    if (to <= held[0] || from >= held[1]) return null;
    const [first, last] = [Math.max(0, Math.floor((from - held[0]) / part)), Math.min(values.length, Math.ceil((to - held[0]) / part))];
    const known = values.slice(first, Math.max(last, first + 1)).filter((value): value is number => value !== null);
    return known.length ? known.reduce((one, other) => choose(one, other)) : null;
  });
}
