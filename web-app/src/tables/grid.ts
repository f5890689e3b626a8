// A long table: only the rows in sight are on the page, so that tens of thousands sort and filter at once.

import {
  ColumnCalcsModule,
  FormatModule,
  InteractionModule,
  KeybindingsModule,
  ResizeColumnsModule,
  ResizeTableModule,
  SortModule,
  Tabulator,
  TooltipModule,
} from "tabulator-tables";
import type { Cell } from "../document/types";
import { element } from "../dom/element";
import { plain } from "../format/format";
import type { Words } from "../words/en";
import { cellBar, fullWidths } from "./cell_bars";
import type { Way } from "./moments";
import { compare, headingOf, isNumber, textOf, type Model } from "./model";
import type { Sort } from "./plain_table";

Tabulator.registerModule([
  ColumnCalcsModule,
  FormatModule,
  InteractionModule,
  KeybindingsModule,
  ResizeColumnsModule,
  ResizeTableModule,
  SortModule,
  TooltipModule,
]);

const NARROW = 832; // px: on a telephone, where nothing hovers, names are whole and the table scrolls

type Row = readonly Cell[];

export interface Grid {
  /** Show these rows. */
  show(rows: readonly Row[]): void;
  hide(hidden: ReadonlySet<string>): void;
  /** Rows in the order in which they are shown. */
  rows(): readonly Row[];
  destroy(): void;
}

/** A grid of the rows in `host`. `onSort` is told by which column the reader sorted. */
export function drawGrid(host: HTMLElement, model: Model, rows: readonly Row[], sort: Sort | null, onSort: (sort: Sort) => void, way: Way, words: Words): Grid {
  const full = fullWidths(model);
  const table = new Tabulator(host, {
    data: rows.map((row) => ({ row })),
    height: "100%",
    layout: "fitDataFill",
    columns: model.columns.map((_, at) => columnOf(model, at, way, words, full.get(at))),
    initialSort: initial(model, sort),
    placeholder: "–",
    columnHeaderSortMulti: false,
  });
  table.on("dataSorted", (sorters) => {
    const [first] = sorters;
    if (first) onSort({ column: model.columns[Number(first.field)]?.name ?? "", descending: first.dir === "desc" });
  });
  const built = new Promise<void>((done) => table.on("tableBuilt", () => done()));
  void built.then(() => nameParts(host, model, words));
  return {
    show: (shown) => void built.then(() => table.replaceData(shown.map((row) => ({ row })))),
    hide: (hidden) =>
      void built.then(() =>
        model.columns.forEach((column, at) => (hidden.has(column.name) ? table.hideColumn(String(at)) : table.showColumn(String(at)))),
      ),
    rows: () => table.getData<{ row: Row }>("active").map((data) => data.row),
    destroy: () => void built.then(() => table.destroy()),
  };
}

/** The box that scrolls takes the focus, so it is the group of rows, not a part between grid and rows. */
function nameParts(host: HTMLElement, model: Model, words: Words): void {
  host.setAttribute("aria-label", words.say(plain(model.title)) || words.rows);
  host.removeAttribute("aria-owns");
  host.querySelector(".tabulator-tableholder")?.setAttribute("role", "rowgroup");
  host.querySelector(".tabulator-table")?.setAttribute("role", "presentation");
}

function columnOf(model: Model, at: number, way: Way, words: Words, full: number | undefined): object {
  const column = model.columns[at]!;
  const numbers = isNumber(model, at);
  const value = (data: { row: Row }): Cell => data.row[at] ?? null;
  return {
    title: headingOf(model, at, words),
    field: String(at),
    headerTooltip: words.say(column.meaning ?? "") || false,
    hozAlign: numbers ? "right" : "left",
    headerHozAlign: numbers ? "right" : "left",
    headerSortStartingDir: numbers ? "desc" : "asc",
    maxInitialWidth: innerWidth < NARROW ? undefined : 420,
    formatter: (cell: { getData(): { row: Row } }) => withBar(way(cell.getData().row, at) ?? document.createTextNode(textOf(model, value(cell.getData()), at)), cellBar(value(cell.getData()), full)),
    tooltip: (_: unknown, cell: { getData(): { row: Row } }) => {
      const text = value(cell.getData());
      return typeof text === "string" && text.length > 40 ? plain(text, 2000) : "";
    },
    sorter: (_a: unknown, _b: unknown, one: { getData(): { row: Row } }, other: { getData(): { row: Row } }, _c: unknown, dir: string) =>
      absentLast(value(one.getData()), value(other.getData()), dir),
  };
}

function withBar(content: Node, bar: HTMLElement | null): Node {
  return bar ? element("span", {}, bar, element("span", { class: "over" }, content)) : content;
}

/** Tabulator turns the order round itself, also for absent cells, which are to stay last. */
function absentLast(one: Cell, other: Cell, dir: string): number {
  if (one === null || other === null) return compare(one, other, 1) * (dir === "desc" ? -1 : 1);
  return compare(one, other, 1);
}

function initial(model: Model, sort: Sort | null): { column: string; dir: "asc" | "desc" }[] {
  const at = model.columns.findIndex((column) => column.name === sort?.column);
  return sort && at >= 0 ? [{ column: String(at), dir: sort.descending ? "desc" : "asc" }] : [];
}
