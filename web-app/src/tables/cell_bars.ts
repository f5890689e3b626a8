// Times and shares of a table drawn as bars behind their numbers, so that the eye finds the large ones.

import { element } from "../dom/element";
import type { Model } from "./model";

const FEWEST = 2; // rows that are worth comparing
const DRAWN: ReadonlySet<string | null> = new Set(["ns", "ratio"]);
const MOMENTS = /^(?:start|end|time|offset)$|, since first$/; // when something was, not how long it took

/** Of each column that is drawn, the value whose bar fills the cell. */
export function fullWidths(model: Model): ReadonlyMap<number, number> {
  const found = new Map<number, number>();
  if (model.rows.length < FEWEST) return found;
  model.columns.forEach((column, at) => {
    if (!DRAWN.has(column.unit) || MOMENTS.test(column.name)) return;
    let most = 0;
    for (const row of model.rows) {
      const value = row[at];
      if (typeof value !== "number") continue;
      if (value < 0) return;
      most = Math.max(most, value);
    }
    if (most > 0) found.set(at, column.unit === "ratio" && most <= 1 ? 1 : most);
  });
  return found;
}

/** The bar of a cell; nothing where it has no value. */
export function cellBar(value: unknown, full: number | undefined): HTMLElement | null {
  if (typeof value !== "number" || full === undefined || value <= 0) return null;
  const bar = element("i", { class: "cell-bar", "aria-hidden": "true" });
  bar.style.setProperty("--full", String(Math.min(1, value / full)));
  return bar;
}
