// Rows that lie somewhere in time: the cell of the step, or of the start, leads to the place in the timeline.

import type { App } from "../app";
import { hasTimeline, whenButton } from "../blocks/when";
import type { Cell } from "../document/types";
import { showSince, showSteps } from "../timeline";
import { textOf, type Model } from "./model";

/** The button of a cell; nothing for most cells. */
export type Way = (row: readonly Cell[], at: number) => HTMLButtonElement | null;

/** `began`: the moment that times of the table count from, where they are those of the timeline. */
export function wayOf(model: Model, app: App, began: string | null = null): Way {
  if (!hasTimeline(app)) return () => null;
  const place = (name: string) => model.columns.findIndex((column) => column.name === name || column.name === `${name}, since first`);
  const [start, end, step, rank] = [place("start"), place("end"), place("step"), place("rank")];
  const timed = began !== null && start >= 0 && end >= 0;
  const steps = step >= 0 && model.columns[step]?.unit === null;
  return (row, at) => {
    const [from, to, number] = [row[start], row[end], row[step]];
    const text = textOf(model, row[at], at);
    if (timed && at === start && typeof from === "number" && typeof to === "number") {
      return whenButton(text, text, () => showSince(began, { start: from, end: to }, "", app), app);
    }
    if (!steps || at !== step || typeof number !== "number") return null;
    const of = row[rank];
    const name = `${app.words.step} ${number}`;
    return whenButton(text, name, () => showSteps({ first: number, rank: typeof of === "number" ? of : null }, name, app), app);
  };
}
