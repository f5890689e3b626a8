// A long table with its tools: a grid that fills the height it is given.

import type { App, Cleanup } from "../app";
import { element } from "../dom/element";
import { plain } from "../format/format";
import { drawGrid } from "./grid";
import { csv, filtered, markdown, narrowed, shown, type Model } from "./model";
import { wayOf, type Since, type Way } from "./moments";
import { TablePlace } from "./place";
import { tools } from "./tools";

/** What a table has besides its rows: controls, its name, what its times count from, and cells of its own. */
export interface Extras {
  more?: readonly Node[];
  name?: string;
  since?: Since | null;
  special?: Way;
}

export function tableView(host: HTMLElement, whole: Model, app: App, key: string, { more = [], name = "", since = null, special }: Extras = {}): Cleanup {
  const place = new TablePlace(app.state, key);
  const model = narrowed(whole, place.only);
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
  host.append(element("div", { class: "table long" }, only(place, app), bar.bar, box));
  const rows = filtered(model, place.filter);
  const places = wayOf(model, app, name, since);
  const grid = drawGrid(box, model, rows, place.sort, (sort) => (place.sort = sort), (row, at) => special?.(row, at) ?? places(row, at), app.words);
  grid.hide(place.hidden);
  bar.count(rows.length);
  return () => grid.destroy();
}

/** What the rows are narrowed to, each with a link that takes it away. */
function only(place: TablePlace, app: App): HTMLElement | null {
  if (!place.only.size) return null;
  const items = [...place.only].map(([name, value]) =>
    element("li", {}, element("code", {}, name.endsWith("/") ? `${plain(name.slice(0, -1))} = ${plain(value)}[.…]` : `${plain(name)} = ${plain(value)}`), " ", element("a", { href: place.without(name), "aria-label": `${plain(name)}: ${app.words.allAgain}`, title: app.words.allAgain }, "✕")),
  );
  return element("ul", { class: "only", "aria-label": app.words.onlyRows }, ...items);
}
