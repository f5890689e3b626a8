// A table of a section: short ones whole, long ones as a grid.

import type { App, Cleanup } from "../app";
import type { TableBlock } from "../document/types";
import { element } from "../dom/element";
import { changesOf } from "./changes";
import { csv, filtered, markdown, shown, sorted } from "../tables/model";
import { BESIDE } from "../tables/deeper";
import { wayOf, type Since, type Way } from "../tables/moments";
import { TablePlace } from "../tables/place";
import { drawPlain } from "../tables/plain_table";
import { translated } from "../tables/translated";
import { tableView } from "../tables/view";
import { tools } from "../tables/tools";

const WHOLE = 200; // rows that a page draws in no time

export function drawTable(host: HTMLElement, table: TableBlock, app: App, key: string, since: Since | null = null): Cleanup | void {
  const block = translated(table, app.words);
  const more = allRows(block, app);
  const source = (block.source ?? "").replaceAll("-", "_");
  const changes = changesOf(block, app);
  if (block.rows.length > WHOLE) return tableView(host, block, app, key, { more, name: source, since, special: changes });
  const place = new TablePlace(app.state, key);
  const box = element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": app.words.say(block.title) || app.words.analysis });
  const places = wayOf(block, app, source, since);
  const way: Way = (row, at) => changes(row, at) ?? places(row, at);
  const rows = () => {
    const sort = place.sort;
    const at = block.columns.findIndex((column) => column.name === sort?.column);
    const found = filtered(block, place.filter);
    return sort && at >= 0 ? sorted(found, at, sort.descending) : found;
  };
  const draw = () => {
    drawPlain(box, block, { rows: rows(), shown: shown(block, place.hidden), sort: place.sort, way, words: app.words, stacks: block.change !== undefined, onSort: (sort) => change(() => (place.sort = sort)) });
    bar.count(rows().length);
  };
  const change = (how: () => void) => {
    const focused = box.contains(document.activeElement) ? document.activeElement?.textContent : null;
    how();
    draw();
    if (focused) refocus(box, focused);
  };
  const bar = tools(block, app, {
    filter: place.filter,
    hidden: place.hidden,
    onFilter: (filter) => change(() => (place.filter = filter)),
    onHide: (hidden) => change(() => (place.hidden = hidden)),
    csv: () => csv(block, rows(), shown(block, place.hidden)),
    markdown: () => markdown(block, rows(), shown(block, place.hidden)),
  }, more);
  host.append(element("div", { class: block.rows.length > 3 ? "table" : "table short", "data-source": block.source }, bar.bar, box));
  draw();
}

function allRows(block: TableBlock, app: App): Node[] {
  if (!block.source || !app.served) return [];
  const name = block.source.replaceAll("-", "_");
  const beside = BESIDE[name];
  return [
    element("a", { class: "small", href: app.state.address({ view: "tables", table: name }) }, app.words.allRows),
    ...(beside ? [element("a", { class: "small", href: app.state.address({ view: "tables", table: beside }) }, beside)] : []),
  ];
}

/** The heading that was clicked is a new element after sorting: it keeps the focus. */
function refocus(box: HTMLElement, text: string): void {
  const bare = text.replace(/ [▲▼]$/, "");
  for (const button of box.querySelectorAll("button")) {
    if (button.textContent?.replace(/ [▲▼]$/, "") === bare) button.focus();
  }
}
