// A long table with its tools: a grid that fills the height it is given.

import type { App, Cleanup } from "../app";
import { element } from "../dom/element";
import { drawGrid } from "./grid";
import { csv, filtered, markdown, shown, type Model } from "./model";
import { wayOf, type Since } from "./moments";
import { TablePlace } from "./place";
import { tools } from "./tools";

export function tableView(host: HTMLElement, model: Model, app: App, key: string, more: readonly Node[] = [], since: Since | null = null): Cleanup {
  const place = new TablePlace(app.state, key);
  const box = element("div", { class: "grid" });
  const bar = tools(model, app, {
    filter: place.filter,
    hidden: place.hidden,
    onFilter: (filter) => {
      place.filter = filter;
      const rows = filtered(model, filter);
      grid.show(rows);
      bar.count(rows.length);
    },
    onHide: (hidden) => {
      place.hidden = hidden;
      grid.hide(hidden);
    },
    csv: () => csv(model, grid.rows(), shown(model, place.hidden)),
    markdown: () => markdown(model, grid.rows(), shown(model, place.hidden)),
  }, more);
  host.append(element("div", { class: "table long" }, bar.bar, box));
  const rows = filtered(model, place.filter);
  const grid = drawGrid(box, model, rows, place.sort, (sort) => (place.sort = sort), wayOf(model, app, since));
  grid.hide(place.hidden);
  bar.count(rows.length);
  return () => grid.destroy();
}
