// Where a click on a place of the code leads: an editor's own kind of address.

import type { App } from "../app";
import type { Place } from "../document/types";

const DEFAULT = "vscode://file{file}:{line}";
const KEPT = "stepscope-editor";

/** The template that the reader chose, else that of Visual Studio Code. */
export function editorTemplate(): string {
  try {
    return localStorage.getItem(KEPT) || DEFAULT;
  } catch {
    return DEFAULT; // a frame without an origin of its own has no storage
  }
}

export function keepEditorTemplate(template: string): void {
  try {
    localStorage.setItem(KEPT, template);
  } catch {
    // as above: it holds as long as the page
  }
}

/** Nothing where the recording names no whole path, and never an address that would run something in the page. */
export function editorAddress(place: Place, _app: App): string {
  if (!/^([A-Za-z]:)?[\\/]/.test(place.file) || place.line < 1) return "";
  const file = place.file.split(/[\\/]/).map(encodeURIComponent).join("/");
  const address = editorTemplate()
    .replaceAll("{file}", file.startsWith("/") ? file : `/${file}`)
    .replaceAll("{line}", String(place.line));
  return /^(?!(javascript|data|vbscript|blob|file):)[a-z][a-z0-9+.-]*:/i.test(address) ? address : "";
}
