// The way down: from a row to the rows of the next table that are inside it: step, module, operator, kernel.

import type { App } from "../app";
import { showDialog } from "../dom/dialog";
import { element } from "../dom/element";
import { plain } from "../format/format";
import type { Cell, Document } from "../document/types";
import type { Model } from "./model";

interface Step {
  /** The cell that leads down. */
  cell: string;
  table: string;
  /** Column without which nothing is inside, such as time on a device. */
  needs?: string;
  /** Columns of the next table, by the columns of this one that say the same; with `/`: the paths below, too. */
  same: Record<string, string>;
}

const IN_MODULE = { rank: "rank", module: "module/", pass: "pass" };
const DOWN: Record<string, Step> = {
  steps: { cell: "duration", table: "module_steps", same: { rank: "rank", step: "step" } },
  module_steps: { cell: "module", table: "module_operators", same: IN_MODULE },
  modules: { cell: "module", table: "module_operators", same: IN_MODULE },
  module_operators: { cell: "name", table: "module_kernels", needs: "device_total", same: { ...IN_MODULE, module: "module", name: "operator" } },
  module_kernels: { cell: "name", table: "kernels", same: { rank: "rank", name: "name" } },
};

/** Tables of the same in more detail: modules step by step. */
export const BESIDE: Record<string, string> = { modules: "module_steps" };

/** A link of a cell to what is inside its row; nothing for most cells. */
export function downOf(table: string, model: Model, app: App): (row: readonly Cell[], at: number, text: string) => HTMLElement | null {
  const step = DOWN[table];
  const from = model.columns.findIndex((column) => column.name === step?.cell);
  const needed = model.columns.findIndex((column) => column.name === step?.needs);
  if (!step || from < 0) return () => null;
  return (row, at, text) => {
    if (at !== from || row[at] === null || (needed >= 0 && !row[needed])) return null;
    const only = new URLSearchParams();
    model.columns.forEach((column, place) => {
      const name = step.same[column.name];
      const value = row[place];
      if (name && value !== null && value !== undefined) only.set(name, String(value));
    });
    return app.served ? link(text, step.table, only, app) : button(text, step.table, only, app);
  };
}

function link(text: string, table: string, only: URLSearchParams, app: App): HTMLElement {
  const address = app.state.address({ view: "tables", table, [`t.${table}.w`]: only.toString(), [`t.${table}.q`]: "" });
  return element("a", { class: "down", href: address, title: `${app.words.inside}: ${table}` }, text);
}

/** In a file, which holds no such table, the command takes the place of the link. */
function button(text: string, table: string, only: URLSearchParams, app: App): HTMLElement {
  const made = element("button", { type: "button", class: "down", title: `${app.words.inside}: ${table}` }, text);
  made.addEventListener("click", () => showCommand(commandOf(table, only, app), app));
  return made;
}

function commandOf(table: string, only: URLSearchParams, app: App): string {
  const tests = [...only].map(([name, value]) => ` --where ${quoted(`${name.replace(/\/$/, "")}=${value}`)}`);
  return `stepscope show ${table} ${pathOf(app.document)}${tests.join("")}`;
}

/** The run as it was opened, for a command; PATH for several, which no command takes. */
export function pathOf(document: Document): string {
  const path = document.schema === "stepscope-report" ? plain(document.run.path, 400) : "";
  return path && !/ and \d+ more$/.test(path) ? quoted(path) : "PATH";
}

/** A word as a shell takes it. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** What a file does not hold, and the command that shows it. */
function showCommand(command: string, app: App): void {
  showDialog(app.words.inside, app.words.close, element("p", {}, app.words.commandFor), element("p", {}, element("code", {}, command)));
}
