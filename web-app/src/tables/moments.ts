// Where cells lead: that of the step, or of the start, into the timeline, that of a name to what is inside its row.

import type { App } from "../app";
import { hasTimeline, whenButton } from "../blocks/when";
import type { Cell } from "../document/types";
import { showSince, showSteps } from "../timeline";
import { downOf } from "./deeper";
import { textOf, type Model } from "./model";

/** What a cell holds in place of its text, such as a button; nothing for most cells. */
export type Way = (row: readonly Cell[], at: number) => HTMLElement | null;

/** What moments of a table count from, and the clock that they are on; of rows with a clock of their own: `row`. */
export interface Since {
  began: string;
  clock: "trace" | "run" | "row";
}

const OF_TRACE = "kineto"; // the word of a row for the clock of traces

/** `table` is its name; `since` is null where the timeline does not know its times. */
export function wayOf(model: Model, app: App, table: string, since: Since | null = null): Way {
  const down = downOf(table, model, app);
  const when = whenOf(model, app, since);
  return (row, at) => when(row, at) ?? down(row, at, textOf(model, row[at], at));
}

function whenOf(model: Model, app: App, since: Since | null): Way {
  if (!hasTimeline(app)) return () => null;
  const place = (name: string) => model.columns.findIndex((column) => column.name === name || column.name === `${name}, since first`);
  const [start, end, duration, time, step, rank, clock] = ["start", "end", "duration", "time", "step", "rank", "clock"].map(place) as [number, number, number, number, number, number, number];
  const from = start >= 0 ? start : time;
  const steps = step >= 0 && model.columns[step]?.unit === null;
  return (row, at) => {
    const [began, until, length, number, of] = [row[from], row[end], row[duration], row[step], row[rank]];
    const text = textOf(model, row[at], at);
    const ofRank = typeof of === "number" ? of : null;
    if (since && at === from && typeof began === "number") {
      const to = typeof until === "number" ? until : typeof length === "number" ? began + length : null;
      const own = since.clock === "row" ? (row[clock] === OF_TRACE ? "trace" : "run") : since.clock;
      return whenButton(text, text, () => showSince({ began: since.began, clock: own }, began, from === start ? to : null, ofRank, app), app);
    }
    if (!steps || at !== step || typeof number !== "number") return null;
    const name = `${app.words.step} ${number}`;
    return whenButton(text, name, () => showSteps({ first: number, rank: ofRank }, name, app), app);
  };
}
