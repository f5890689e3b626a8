// A table as the page shows it: texts of cells, and what copying gives.

import type { Cell, Column } from "../document/types";
import { cell, plain, plainAmong } from "../format/format";
import type { Words } from "../words/en";

export interface Model {
  readonly title: string;
  readonly columns: readonly Column[];
  readonly rows: readonly (readonly Cell[])[];
  /** Columns are named as in `stepscope show`, in every language. */
  readonly raw?: boolean;
  /** The text of a cell in the language of the page, where it is not the same. */
  readonly told?: (text: string, at: number) => string;
}

/** The rows of which a cell holds all words of the filter, whatever their case. */
export function filtered(model: Model, filter: string, rows = model.rows): readonly (readonly Cell[])[] {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return rows;
  return rows.filter((row) => {
    const text = row.map((value, at) => textOf(model, value, at)).join("\u0001").toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

/** The table with only the rows whose columns have these values; of a column with `/`, a path or one below it. */
export function narrowed(model: Model, only: ReadonlyMap<string, string>): Model {
  const tests = [...only].flatMap(([name, value]) => {
    const path = name.endsWith("/");
    const at = model.columns.findIndex((column) => column.name === (path ? name.slice(0, -1) : name));
    return at < 0 ? [] : [(row: readonly Cell[]) => String(row[at]) === value || (path && String(row[at]).startsWith(`${value}.`))];
  });
  return tests.length ? { ...model, rows: model.rows.filter((row) => tests.every((test) => test(row))) } : model;
}

/** Rows by a column; absent cells come last, whichever way. */
export function sorted(rows: readonly (readonly Cell[])[], at: number, descending: boolean): readonly (readonly Cell[])[] {
  const sign = descending ? -1 : 1;
  return [...rows].sort((one, other) => compare(one[at] ?? null, other[at] ?? null, sign));
}

/** Order of two cells: numbers by value, names by their letters, absent ones last. */
export function compare(one: Cell, other: Cell, sign: number): number {
  if (one === null || other === null) return Number(one === null) - Number(other === null);
  if (typeof one === "number" && typeof other === "number") return sign * (one - other);
  return sign * (String(one) < String(other) ? -1 : String(one) > String(other) ? 1 : 0);
}

export function textOf(model: Model, value: Cell | undefined, at: number): string {
  const column = model.columns[at];
  if (typeof value === "string") return nameOf(model, told(model, value, at), at);
  const text = cell(value, column?.unit ?? null, column?.decimal);
  return typeof value === "boolean" ? told(model, text, at) : text;
}

const LIST = /^[a-z-]+(, [a-z-]+)+$/; // of rules: none may be missing
const LONGEST_LIST = 2000;
const SAME = new WeakMap<Model, Map<number, Map<string, Set<string>>>>();

/** A name as it is shown; of long ones that would look alike, with the part in which they differ. */
function nameOf(model: Model, name: string, at: number): string {
  const shown = plain(name, LIST.test(name) ? LONGEST_LIST : undefined);
  if (!shown.includes("…")) return shown;
  const others = [...(sameOf(model, at).get(shown) ?? [])];
  return others.length > 1 ? plainAmong(name, others) : shown;
}

/** The names of a column by how they are shown. */
function sameOf(model: Model, at: number): Map<string, Set<string>> {
  const columns = SAME.get(model) ?? new Map<number, Map<string, Set<string>>>();
  SAME.set(model, columns);
  const known = columns.get(at);
  if (known) return known;
  const made = new Map<string, Set<string>>();
  for (const row of model.rows) {
    if (typeof row[at] !== "string") continue;
    const name = told(model, row[at], at);
    made.set(plain(name), (made.get(plain(name)) ?? new Set()).add(name));
  }
  columns.set(at, made);
  return made;
}

/** What stands above a column. */
export function headingOf(model: Model, at: number, words: Words): string {
  const name = plain(model.columns[at]?.name ?? "");
  return model.raw ? name : words.say(name);
}

/** A text of a cell in the language of the page. */
export function told(model: Model, text: string, at: number): string {
  return model.told?.(text, at) ?? text;
}

/** True for a column of numbers, which are set to the right. */
export function isNumber(model: Model, at: number): boolean {
  return model.columns[at]?.unit != null || model.rows.some((row) => typeof row[at] === "number");
}

/** CSV with whole numbers and units in the headings. */
export function csv(model: Model, rows: readonly (readonly Cell[])[], shown: readonly number[]): string {
  const heads = shown.map((at) => {
    const column = model.columns[at];
    return quoted(column?.unit ? `${column.name} (${column.unit})` : (column?.name ?? ""));
  });
  const lines = rows.map((row) => shown.map((at) => quoted(row[at] ?? "")).join(","));
  return [heads.join(","), ...lines].join("\n") + "\n";
}

/** Markdown with the texts of the page. */
export function markdown(model: Model, rows: readonly (readonly Cell[])[], shown: readonly number[]): string {
  const heads = shown.map((at) => escaped(model.columns[at]?.name ?? ""));
  const rule = shown.map((at) => (isNumber(model, at) ? "---:" : "---"));
  const lines = rows.map((row) => shown.map((at) => escaped(textOf(model, row[at], at))));
  return [heads, rule, ...lines].map((line) => `| ${line.join(" | ")} |`).join("\n") + "\n";
}

function quoted(value: Cell): string {
  const text = String(value);
  // A text that a spreadsheet would take for a formula is none.
  const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

function escaped(text: string): string {
  return plain(text).replace(/[\\|`*_<>[\]]/g, "\\$&");
}

/** Positions of the columns that are not hidden. */
export function shown(model: Model, hidden: ReadonlySet<string>): number[] {
  return model.columns.flatMap((column, at) => (hidden.has(column.name) ? [] : [at]));
}
