// A short table: all its rows are on the page, a click on a heading sorts them.

import type { Cell } from "../document/types";
import { element, fill } from "../dom/element";
import { breakable, sentence, unbroken } from "../blocks/words";
import { plain } from "../format/format";
import type { Words } from "../words/en";
import { cellBar, fullWidths } from "./cell_bars";
import { headingOf, isNumber, textOf, told, type Model } from "./model";
import type { Way } from "./moments";

const SHORT = 24; // characters of a cell that needs no folding
const LONG = "words long";
const MANY_COLUMNS = 5; // more than a telephone shows beside a long one
const TOO_MANY_COLUMNS = 6; // more than it shows at all

export interface Sort {
  column: string;
  descending: boolean;
}

export interface View {
  rows: readonly (readonly Cell[])[];
  shown: readonly number[];
  sort: Sort | null;
  words: Words;
  onSort?: (sort: Sort) => void;
  way?: Way;
  /** Whether a telephone shows each row as lines below each other, however few the columns are. */
  stacks?: boolean;
}

/** Draw the table anew into `host`, a box that scrolls sideways where it must. */
export function drawPlain(host: HTMLElement, model: Model, view: View): void {
  const kinds = model.columns.map((_, at) => kindOf(model, at));
  const full = fullWidths(model);
  const head = element("tr", {}, ...view.shown.map((at) => heading(model, at, kinds[at] ?? "", view)));
  const rows = view.rows.map((row) => element("tr", {}, ...view.shown.map((at) => cellOf(model, row, at, kinds[at] ?? "", view, full.get(at)))));
  const shownKinds = view.shown.map((at) => kinds[at]);
  const many = shownKinds.includes(LONG) ? MANY_COLUMNS : TOO_MANY_COLUMNS;
  const stacks = view.stacks || shownKinds.filter((kind) => kind === LONG).length > 1 || shownKinds.length >= many;
  const table = element("table", { class: stacks ? "stacks" : "", "aria-label": view.words.say(plain(model.title)) || undefined });
  table.append(element("thead", {}, head), element("tbody", {}, ...rows));
  fill(host, table);
}

function heading(model: Model, at: number, kind: string, view: View): HTMLElement {
  const column = model.columns[at]!;
  const order = view.sort?.column === column.name ? (view.sort.descending ? "descending" : "ascending") : undefined;
  const name = headingOf(model, at, view.words);
  const head = element("th", { scope: "col", class: kind, "aria-sort": order, title: view.words.say(column.meaning ?? "") || undefined });
  if (!view.onSort) {
    head.append(name);
    return head;
  }
  const numbers = kind === "number";
  const mark = order ? (order === "descending" ? " ▼" : " ▲") : "";
  head.append(
    element("button", { type: "button", class: column.meaning ? "sort defined" : "sort", onclick: () => view.onSort?.(next(view.sort, column.name, numbers)) }, name, element("span", { "aria-hidden": "true" }, mark)),
  );
  return head;
}

/** Numbers begin with the largest, names with A; another click turns the order round. */
function next(sort: Sort | null, column: string, numbers: boolean): Sort {
  return { column, descending: sort?.column === column ? !sort.descending : numbers };
}

function cellOf(model: Model, row: readonly Cell[], at: number, kind: string, view: View, full: number | undefined): HTMLElement {
  const text = textOf(model, row[at], at);
  const number = kind === "number";
  const content = view.way?.(row, at) ?? (number ? unbroken(text) : text.includes("`") ? sentence(text) : breakable(text));
  const whole = wholeOf(model, row[at], at);
  const special = content instanceof HTMLElement && content.classList.contains("change") ? `${kind} changed` : kind;
  return element("td", { class: special, "data-label": headingOf(model, at, view.words), title: whole }, special === kind ? cellBar(row[at], full) : null, element("span", {}, content));
}

/** The whole text of a cell that shows a part of it. */
function wholeOf(model: Model, value: Cell | undefined, at: number): string | undefined {
  if (typeof value !== "string") return undefined;
  const whole = told(model, plain(value, 4000), at);
  return whole === textOf(model, value, at) ? undefined : whole;
}

function kindOf(model: Model, at: number): string {
  if (isNumber(model, at)) return "number";
  return model.rows.some((row) => textOf(model, row[at], at).length > SHORT) ? LONG : "words";
}
