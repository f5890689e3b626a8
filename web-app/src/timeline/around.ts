// Above the tracks: the search and the buttons, what the colors mean, and what is not drawn.

import { element } from "../dom/element";
import { quoted } from "../tables/deeper";
import type { Actions } from "./input";
import { CATEGORIES } from "./palette";
import { swatch } from "./panel";
import type { Source, Tracks } from "./types";
import type { TimelineWords } from "./words";

export function around(source: Source, data: Tracks, name: string, lit: ReadonlySet<string>, finder: HTMLElement, words: TimelineWords, actions: Actions & { unlight(): void }): HTMLElement[] {
  const button = (label: string, sign: string, act: () => void) => element("button", { type: "button", class: "small", title: label, "aria-label": label, onclick: act }, sign);
  const controls = element(
    "div", { class: "controls" }, finder,
    button(words.zoomOut, "−", () => actions.zoom(1.6)), button(words.zoomIn, "+", () => actions.zoom(0.6)), button(words.fit, "⤢", () => actions.all()),
    name ? element("strong", { class: "asked", title: name }, name) : null,
    lit.size ? light([...lit], words, actions) : null,
  );
  const legend = element("ul", { class: "categories" }, ...CATEGORIES.map((category) => element("li", { "data-category": category }, swatch(category, false), words.categories[category])));
  const notes = data.notes.map((note) => element("p", { class: "note" }, note));
  if (source.held) notes.unshift(element("p", { class: "note" }, `${words.held} `, element("code", {}, `stepscope view ${quoted(source.path)}`)));
  return [controls, legend, ...notes];
}

/** Which spans stand out, and the way to see all alike. */
function light(lit: readonly string[], words: TimelineWords, actions: { unlight(): void }): HTMLElement {
  const names = lit.map((category) => words.categories[category as keyof typeof words.categories] ?? category).join(", ");
  const button = element("button", { type: "button", class: "small lit", title: words.unlight }, `${words.lit}: ${names} ✕`);
  button.addEventListener("click", () => {
    actions.unlight();
    button.remove();
  });
  return button;
}
