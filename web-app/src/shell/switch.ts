// Where two runs are served beside their comparison: links from one of the three to the others.

import type { App } from "../app";
import { element } from "../dom/element";
import { plain } from "../format/format";
import type { State } from "../state/state";

/** A run beside what the page shows first: the begin of its addresses, and which run it is. */
export interface Beside {
  key: string;
  path: string;
}

/** The runs that the server has beside, none mostly. */
export function besides(): Beside[] {
  return JSON.parse(document.getElementById("beside")?.textContent ?? "[]") as Beside[];
}

const COMPARED = 2;

/** The switch; nothing where there is one document alone. */
export function switchBetween(app: App): HTMLElement | null {
  if (!app.beside.length) return null;
  const { words, state } = app;
  const now = state.get("run");
  const listed = app.beside.length > COMPARED || app.beside.some((one) => /^\d+$/.test(one.key)); // a folder of runs, not two of them
  if (listed && !now) return null;
  if (listed) return element("div", { class: "switch", role: "group", "aria-label": words.shown }, element("a", { href: addressOf(state, "", now) }, `← ${words.listOfRuns}`));
  const links = [{ key: "", path: words.comparison }, ...app.beside].map(({ key, path }) =>
    element("a", { href: addressOf(state, key, now), title: plain(path, 400), "aria-current": key === now ? "true" : undefined }, key ? key.toUpperCase() : words.comparison),
  );
  return element("div", { class: "switch", role: "group", "aria-label": words.shown }, ...links);
}

/** From one run to the other the view stays; filters and places are of the run that is left. */
function addressOf(state: State, key: string, now: string): string {
  const kept = ["lang", "theme", ...(key && now ? ["view"] : [])];
  const words = new URLSearchParams(kept.flatMap((name) => (state.get(name) ? [[name, state.get(name)]] : [])));
  if (key) words.set("run", key);
  return `#${words.toString()}`;
}
