// Windows of steps, and whether this page can show them.

import type { App } from "../app";
import { excerptIn, FileSource } from "./excerpt";
import { showWindow } from "./view";
import type { Window } from "./types";

/** Steps by their numbers; without numbers a typical one. `rank`: null, the first that has steps. */
export interface Steps {
  first?: number;
  last?: number;
  rank: number | null;
}

let inFile: Promise<FileSource | null> | undefined;

/** Show steps in the timeline; false where this page cannot. */
export async function showSteps(steps: Steps, name: string, app: App): Promise<boolean> {
  const window = app.served ? await app.fetchJson<Window | null>(`api/timeline/step?${asked(steps)}`) : ((await held())?.steps(steps) ?? null);
  if (window) showWindow(window.start, window.end, name);
  return window !== null;
}

/** Show a window of the trace's clock: times since a moment that is too large for a number. */
export async function showSince(began: string, window: Window, name: string, app: App): Promise<boolean> {
  const shift = await app.fetchJson<number>(`api/timeline/since?moment=${began}`);
  showWindow(window.start + shift, window.end + shift, name);
  return true;
}

function asked({ first, last, rank }: Steps): string {
  const words = { first, last: last ?? first, rank: rank ?? undefined };
  return new URLSearchParams(Object.entries(words).flatMap(([key, value]) => (value === undefined ? [] : [[key, String(value)]]))).toString();
}

function held(): Promise<FileSource | null> {
  inFile ??= excerptIn(document).then((excerpt) => excerpt && new FileSource(excerpt));
  return inFile;
}
