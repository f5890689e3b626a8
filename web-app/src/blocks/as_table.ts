// The figures of a chart as a table, beneath it, for those who would rather read.

import type { App, Cleanup } from "../app";
import type { TableBlock } from "../document/types";
import { element } from "../dom/element";
import type { Since } from "../tables/moments";
import { drawTable } from "./table";

/** What unfolds the table, which is made when it is first asked for, and what takes it away. `key` is that of the chart. */
export function asTable(block: () => TableBlock, app: App, key: string, since: Since | null = null): { details: HTMLElement; clean: Cleanup } {
  let clean: Cleanup | void;
  const details = element("details", { class: "as-table" }, element("summary", { class: "small" }, app.words.asTable));
  details.addEventListener("toggle", () => {
    if (details.open && details.childElementCount === 1) clean = drawTable(details, block(), app, `${key}.d`, since);
  });
  return { details, clean: () => clean?.() };
}
