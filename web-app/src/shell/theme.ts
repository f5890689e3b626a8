// Light or dark: as the system says, unless the reader chose; the choice is kept.

import type { State } from "../state/state";

const KEPT = "stepscope-theme";
const ORDER = ["", "light", "dark"];
const SYSTEM_IS_DARK = matchMedia("(prefers-color-scheme: dark)");

export function wantedTheme(state: State): string {
  const asked = state.get("theme");
  return ORDER.includes(asked) && asked ? asked : kept();
}

/** Put the theme on the page, "" for that of the system; charts are told, since theirs are painted. */
export function showTheme(theme: string): void {
  const shown = theme || (SYSTEM_IS_DARK.matches ? "dark" : "light");
  if (document.documentElement.dataset["theme"] === shown) return;
  document.documentElement.dataset["theme"] = shown;
  window.dispatchEvent(new Event("stepscope-theme"));
}

export function nextTheme(state: State): void {
  const next = ORDER[(ORDER.indexOf(wantedTheme(state)) + 1) % ORDER.length] ?? "";
  keep(next);
  state.set({ theme: next }, "replace");
  showTheme(next);
}

export function followSystem(state: State): void {
  SYSTEM_IS_DARK.addEventListener("change", () => showTheme(wantedTheme(state)));
}

function kept(): string {
  try {
    return localStorage.getItem(KEPT) ?? "";
  } catch {
    return ""; // a frame without an origin of its own has no storage
  }
}

function keep(theme: string): void {
  try {
    localStorage.setItem(KEPT, theme);
  } catch {
    // as above: the address keeps it
  }
}
