// What is in a window, by name: as src/stepscope/timeline/aggregates.py does it, span by span.

import { inside, type Lane } from "./cut";
import type { Category, NameSum, SumGroup, Sums, Track, Window } from "./types";

export const GROUPS: readonly SumGroup[] = ["work", "around", "idle", "path"];
const AROUND: ReadonlySet<Category> = new Set<Category>(["step", "annotation", "python", "other"]);

interface Summed extends NameSum {
  spans: [number, number][];
}

export function sums(tracks: readonly { kind: Track["kind"]; lanes: readonly Lane[] }[], names: readonly [string, Category][], window: Window): Sums {
  const rows = new Map<string, Summed>();
  let spans = 0;
  for (const { kind, lanes } of tracks) {
    lanes.forEach((lane, number) => {
      const [first, last] = inside(lane, window.start, window.end);
      for (let place = first; place < last; place++) {
        const [start, end] = clipped(lane, place, window);
        const row = rowOf(rows, kind, lane.name[place]!, names);
        row.count += 1;
        row.sum += end - start;
        row.own += end - start - within(lanes[number + 1], lane, place, window);
        row.longest = Math.max(row.longest, end - start);
        row.spans.push([start, end]);
        spans += 1;
      }
    });
  }
  const place = (row: NameSum) => GROUPS.indexOf(row.group);
  const found = [...rows.values()].sort((one, other) => place(one) - place(other) || other.own - one.own);
  return { spans, names: found.length, rows: found.map(({ spans: own, ...row }) => ({ ...row, union: union(own) })) };
}

function rowOf(rows: Map<string, Summed>, kind: Track["kind"], code: number, names: readonly [string, Category][]): Summed {
  const [name, category] = names[code]!;
  const group = kind === "gaps" ? "idle" : kind === "path" ? "path" : AROUND.has(category) ? "around" : "work";
  const key = `${group} ${code}`;
  const found = rows.get(key) ?? { group, name, category, count: 0, own: 0, sum: 0, longest: 0, union: 0, spans: [] };
  rows.set(key, found);
  return found;
}

function clipped(lane: Lane, place: number, window: Window): [number, number] {
  return [Math.max(lane.start[place]!, window.start), Math.min(lane.end[place]!, window.end)];
}

/** The time in the window that spans of the lane below take of one that they lie in. */
function within(below: Lane | undefined, lane: Lane, place: number, window: Window): number {
  if (!below || below.nests === false) return 0;
  let taken = 0;
  const [first, last] = inside(below, Math.max(lane.start[place]!, window.start), Math.min(lane.end[place]!, window.end));
  for (let inner = first; inner < last; inner++) {
    if (below.start[inner]! < lane.start[place]! || below.end[inner]! > lane.end[place]!) continue;
    const [start, end] = clipped(below, inner, window);
    taken += end - start;
  }
  return taken;
}

function union(spans: [number, number][]): number {
  let [total, until] = [0, -Infinity];
  for (const [start, end] of spans.sort((one, other) => one[0] - other[0])) {
    total += Math.max(0, end - Math.max(start, until));
    until = Math.max(until, end);
  }
  return total;
}
