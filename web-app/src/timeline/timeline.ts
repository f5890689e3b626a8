// The timeline: tracks of a run, drawn at the resolution of the screen from frames that a source gives.

import { element, fill } from "../dom/element";
import { Drawn, type Options } from "./drawn";
import type { Source, Window } from "./types";
import { timelineWords } from "./words";

export interface Timeline {
  show(window: Window): void;
  end(): void;
}

/** Draw the timeline of a source into an element. */
export function mountTimeline(host: HTMLElement, source: Source, options: Options = {}): Timeline {
  const words = timelineWords();
  const status = element("p", { class: "quiet", role: "status" }, words.loading);
  host.append(status);
  let drawn: Drawn | null = null;
  let gone = false;
  let asked = options.window;
  source.tracks().then(
    (tracks) => {
      if (gone) return;
      status.remove();
      drawn = new Drawn(host, source, { ...tracks, tracks: tracks.tracks.map((track) => ({ ...track, name: words.track(track.name), group: words.track(track.group) })) }, { ...options, window: asked }, words);
    },
    (error: unknown) => fill(status, `${words.failed}: ${String(error)}`),
  );
  return {
    show: (window) => (drawn ? drawn.show(window) : void (asked = window)),
    end: () => {
      gone = true;
      drawn?.end();
    },
  };
}
