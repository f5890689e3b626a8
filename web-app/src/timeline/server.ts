// The timeline from a server, which holds the whole run.

import type { Found, Frame, Ref, Source, SpanEvent, Sums, Tracks, Way, Window } from "./types";

export type FetchJson = <T>(path: string) => Promise<T>;

export function serverSource(fetchJson: FetchJson, path: string): Source {
  const ask = <T>(name: string, words: Record<string, string | number> = {}): Promise<T> => {
    const given = new URLSearchParams(Object.entries(words).map(([key, value]) => [key, String(value)]));
    return fetchJson<T>(`api/timeline/${name}?${given.toString()}`);
  };
  const of = (window: Window, tracks: readonly number[]) => ({ from: Math.floor(window.start), to: Math.ceil(window.end), tracks: tracks.join(",") });
  return {
    held: null,
    path,
    tracks: () => ask<Tracks>("tracks"),
    frame: (window, width, tracks) => ask<Frame>("frame", { ...of(window, tracks), width }),
    find: (text: string, from: Ref | number, backwards: boolean) =>
      ask<Found>("find", { text, ...(typeof from === "number" ? { at: Math.floor(from) } : from), ...(backwards ? { backwards: 1 } : {}) }),
    event: (ref: Ref, way: Way) => ask<SpanEvent>("event", { ...ref, way }),
    sums: (window, tracks) => ask<Sums>("sums", of(window, tracks)),
  };
}
