// What the tracks show, in words, for those who do not see the picture.

import { element, fill } from "../dom/element";
import type { TrackRow } from "./layout";
import { summary } from "./paint";
import type { Frame, Window } from "./types";
import type { TimelineWords } from "./words";

export function listTracks(host: HTMLElement, rows: readonly TrackRow[], frame: Frame, window: Window, words: TimelineWords): void {
  const items = rows.flatMap((row) => {
    const found = frame.tracks.find((track) => track.id === row.track.id);
    return found ? [element("li", { "data-track": row.track.id }, `${row.track.group}, ${row.track.name}: ${summary(row, found, words, window)}`)] : [];
  });
  fill(host, ...items);
}
