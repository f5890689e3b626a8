// Where each track stands: below the process that it is of, lane under lane.

import type { Track } from "./types";

export const LANE = 17;
const HEAD = 26;
const GAP = 5;
const VALUES = 40;
const LEAST = 34; // two lines of text at the left
const FOLDED = 24;
const NAME = 17; // a line of text above the lanes, on a narrow screen

export interface GroupRow {
  kind: "group";
  name: string;
  top: number;
  height: number;
  folded: boolean;
  tracks: number;
}

export interface TrackRow {
  kind: "track";
  track: Track;
  /** Place of the track in the list of all. */
  number: number;
  top: number;
  height: number;
  /** Only its first lane is drawn. */
  folded: boolean;
  /** Pixels above its lanes in which its name stands; 0: it stands at the left. */
  head: number;
}

export type Row = GroupRow | TrackRow;

export interface Layout {
  rows: Row[];
  height: number;
}

/** `folded` are names of groups and ids of tracks; `above`: names of tracks stand above them. */
export function layout(tracks: readonly Track[], folded: ReadonlySet<string>, above: boolean): Layout {
  const groups = new Map<string, { track: Track; number: number }[]>();
  tracks.forEach((track, number) => groups.set(track.group, [...(groups.get(track.group) ?? []), { track, number }]));
  const rows: Row[] = [];
  let top = 0;
  for (const [name, members] of groups) {
    const closed = folded.has(name);
    rows.push({ kind: "group", name, top, height: HEAD, folded: closed, tracks: members.length });
    top += HEAD;
    for (const { track, number } of closed ? [] : members) {
      const small = folded.has(track.id);
      const head = above ? NAME : 0;
      const height = head + (small ? FOLDED : track.lanes ? Math.max(above ? 0 : LEAST, track.lanes * LANE + GAP) : VALUES);
      rows.push({ kind: "track", track, number, top, height, folded: small, head });
      top += height;
    }
  }
  return { rows, height: top };
}

export function rowAt(found: Layout, y: number): Row | undefined {
  return found.rows.find((row) => y >= row.top && y < row.top + row.height);
}

export function laneTop(row: TrackRow, lane: number): number {
  return row.top + row.head + 3 + lane * LANE;
}
