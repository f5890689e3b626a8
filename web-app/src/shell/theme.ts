// Light or dark: as the system says, unless the reader chose; the choice is kept.

import type { State } from "../state/state";

const KEPT = "stepscope-theme";
const ORDER = ["", "light", "dark"];

export function wantedTheme(state: State): string {
  const asked = state.get("theme");
  return ORDER.includes(asked) && asked ? asked : kept();
}

/** Put the theme on the page; charts are told, since theirs are painted. */
export function showTheme(theme: string): void {
  if (document.documentElement.dataset["theme"] === theme) return;
  document.documentElement.dataset["theme"] = theme;
  window.dispatchEvent(new Event("stepscope-theme"));
}

export function nextTheme(state: State): void {
  const next = ORDER[(ORDER.indexOf(wantedTheme(state)) + 1) % ORDER.length] ?? "";
  keep(next);
  state.set({ theme: next }, "replace");
  showTheme(next);
}

export function followSystem(): void {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => window.dispatchEvent(new Event("stepscope-theme")));
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
