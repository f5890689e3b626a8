// What is drawn at a place.

import { LANE, type Layout, type TrackRow } from "./layout";
import type { Hit, Picture } from "./paint";
import { isSpans, type Frame, type LaneFrame, type Ref, type Window } from "./types";

/** What is drawn at a point, of the newest frame that covers it. */
export function hitAt(picture: Picture, x: number, y: number): Hit | null {
  const row = picture.layout.rows.find((one): one is TrackRow => one.kind === "track" && y >= one.top && y < one.top + one.height);
  if (!row || x < picture.scale.left || y < row.top + row.head) return null;
  const time = picture.scale.time(x);
  const frame = picture.frames.findLast((one) => time >= one.start && time <= one.end && one.tracks.some((track) => track.id === row.track.id));
  const found = frame?.tracks.find((one) => one.id === row.track.id);
  if (!frame || !found || !isSpans(found)) return null;
  const number = row.folded ? 0 : Math.floor((y - row.top - row.head - 3) / LANE);
  const lane = found.lanes.find((one) => one.lane === number);
  return lane ? hitIn(lane, frame, row, time, picture.scale.perPixel) : null;
}

function hitIn(lane: LaneFrame, frame: Frame, row: TrackRow, time: number, perPixel: number): Hit | null {
  let best = -1;
  let distance = 2 * perPixel; // a span of a pixel can be hit, too
  for (let at = 0; at < (lane.start?.length ?? 0); at++) {
    const [start, end] = [lane.start![at]!, lane.start![at]! + lane.length![at]!];
    const away = time < start ? start - time : time > end ? time - end : 0;
    if (away < distance || (away === 0 && best < 0)) [best, distance] = [at, away];
  }
  const pixel = Math.floor(((time - frame.start) * frame.width) / (frame.end - frame.start));
  const block = lane.pixel?.indexOf(pixel) ?? -1;
  if (best >= 0 && (distance === 0 || block < 0)) {
    const [name, category] = frame.names[lane.name![best]!]!;
    const start = lane.start![best]!;
    return { row, lane: lane.lane, start, end: start + lane.length![best]!, name, category, count: 1, busy: lane.length![best]! };
  }
  if (block < 0) return null;
  const size = (frame.end - frame.start) / frame.width;
  const [name, category] = frame.names[lane.longest![block]!]!;
  const start = frame.start + pixel * size;
  return { row, lane: lane.lane, start, end: start + size, name, category, count: lane.count![block]!, busy: lane.busy![block]! };
}

/** The first span in a window that is drawn by itself. */
export function firstDrawn(rows: Layout, frames: readonly Frame[], window: Window): Ref | null {
  for (const row of rows.rows) {
    if (row.kind !== "track") continue;
    for (const frame of [...frames].reverse()) {
      const found = frame.tracks.find((track) => track.id === row.track.id);
      const lane = found && isSpans(found) ? found.lanes.find((one) => one.start?.length) : undefined;
      const start = lane?.start?.find((time) => time >= window.start) ?? lane?.start?.[0];
      if (lane && start !== undefined) return { track: row.track.id, lane: lane.lane, start };
    }
  }
  return null;
}

/** Where the spans of a track begin that a frame draws by themselves. */
export function starts(frame: Frame | undefined, track: string | undefined): number[] {
  const found = frame?.tracks.find((one) => one.id === track);
  return found && isSpans(found) ? found.lanes.flatMap((lane) => lane.start ?? []) : [];
}
