// Where a click on a place of the code leads: an editor's own kind of address.

import type { App } from "../app";
import type { Place } from "../document/types";

export const EDITORS: Record<string, string> = {
  "Visual Studio Code": "vscode://file{file}:{line}",
  Cursor: "cursor://file{file}:{line}",
  VSCodium: "vscodium://file{file}:{line}",
  PyCharm: "pycharm://open?file={file}&line={line}",
  "Sublime Text": "subl://open?url=file://{file}&line={line}",
};
const DEFAULT = EDITORS["Visual Studio Code"]!;
const KEPT = "stepscope-editor";
let chosen = DEFAULT;

/** The template that the reader chose, else that of Visual Studio Code. */
export function editorTemplate(): string {
  try {
    return localStorage.getItem(KEPT) || chosen;
  } catch {
    return chosen; // a frame without an origin of its own has no storage
  }
}

export function keepEditorTemplate(template: string): void {
  chosen = template;
  try {
    localStorage.setItem(KEPT, template);
  } catch {
    // as above: it holds as long as the page
  }
}

/** Nothing where the recording names no whole path, and never an address that would run something in the page. */
export function editorAddress(place: Pick<Place, "file" | "line">, _app: App): string {
  if (!/^([A-Za-z]:)?[\\/]/.test(place.file) || place.line < 1) return "";
  const file = place.file.split(/[\\/]/).map(encodeURIComponent).join("/");
  const address = editorTemplate()
    .replaceAll("{file}", file.startsWith("/") ? file : `/${file}`)
    .replaceAll("{line}", String(place.line));
  return isEditor(address) ? address : "";
}

/** Whether an address is one that a program may open, and runs nothing in the page. */
export function isEditor(address: string): boolean {
  return /^(?!(javascript|data|vbscript|blob|file|about):)[a-z][a-z0-9+.-]*:/i.test(address);
}
