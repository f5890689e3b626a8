// Windows of steps, and whether this page can show them.

import type { App } from "../app";
import { unpacked } from "../document/packed";
import { FileSource, type Excerpt } from "./excerpt";
import { showWindow } from "./view";
import type { Window } from "./types";

/** Steps by their numbers; without numbers a typical one. `rank`: null, the first that has steps. */
export interface Steps {
  /** Categories of the spans that stand out there. */
  lit?: readonly string[];
  first?: number;
  last?: number;
  rank: number | null;
}

let inFile: Promise<FileSource | null> | undefined;

/** Show steps in the timeline; false where this page cannot. */
export async function showSteps(steps: Steps, name: string, app: App): Promise<boolean> {
  const window = app.served ? await app.fetchJson<Window | null>(`api/timeline/step?${asked(steps)}`) : ((await held())?.steps(steps) ?? null);
  if (window) showWindow(window.start, window.end, name, steps.lit);
  return window !== null;
}

/** Show times since a moment of a clock, which is too large for a number; without an end what is around a moment. */
export async function showSince(since: { began: string; clock: string }, from: number, to: number | null, rank: number | null, app: App): Promise<boolean> {
  const words = { ...since, from, to: to ?? undefined, rank: rank ?? undefined };
  const window = app.served ? await app.fetchJson<Window | null>(`api/timeline/moment?${written(words)}`) : ((await held())?.moment(since.began, from, to) ?? null);
  if (window) showWindow(window.start, window.end, "");
  return window !== null;
}

function asked({ first, last, rank }: Steps): string {
  return written({ first, last: last ?? first, rank: rank ?? undefined });
}

function written(words: Record<string, string | number | undefined>): string {
  return new URLSearchParams(Object.entries(words).flatMap(([key, value]) => (value === undefined ? [] : [[key, String(value)]]))).toString();
}

function held(): Promise<FileSource | null> {
  inFile ??= unpacked<Excerpt>("timeline-data").then((excerpt) => excerpt && new FileSource(excerpt));
  return inFile;
}
