// On paper: every view one after the other, light, with whole tables.

import type { App, Cleanup, View } from "../app";
import { element } from "../dom/element";
import { drawPlain } from "../tables/plain_table";
import { translated } from "../tables/translated";
import { drawBlock } from "../blocks";
import { changesOf } from "../blocks/changes";
import { plain } from "../format/format";
import { overview } from "../views/overview";
import { showTheme } from "./theme";

export function listenToPrinting(app: () => App, views: () => readonly View[]): void {
  let paper: HTMLElement | null = null;
  let cleanups: (Cleanup | void)[] = [];
  let theme = "";
  window.addEventListener("beforeprint", () => {
    paper?.remove();
    theme = document.documentElement.dataset["theme"] ?? "";
    showTheme("light");
    paper = element("div", { id: "paper" });
    document.body.append(paper);
    cleanups = drawAll(paper, app(), views());
  });
  window.addEventListener("afterprint", () => {
    cleanups.forEach((cleanup) => cleanup?.());
    cleanups = [];
    paper?.remove();
    paper = null;
    showTheme(theme);
  });
}

function drawAll(paper: HTMLElement, app: App, views: readonly View[]): (Cleanup | void)[] {
  const first = element("section", {});
  paper.append(first);
  const cleanups = [overview.draw(first, app)];
  for (const details of first.querySelectorAll("details")) details.open = true;
  const names = new Set(views.map((view) => view.name));
  for (const section of app.document.sections.filter((one) => names.has(one.name))) {
    const part = element("section", {}, element("h2", {}, app.words.say(plain(section.title))));
    paper.append(part);
    for (const block of section.blocks) {
      if (block.kind !== "table") {
        cleanups.push(drawBlock(part, block, app, "paper"));
        continue;
      }
      const box = element("div", { class: "table" }, block.title ? element("h3", {}, app.words.say(plain(block.title))) : "");
      const whole = element("div", {});
      drawPlain(whole, translated(block, app.words), { rows: block.rows, shown: block.columns.map((_, at) => at), sort: null, words: app.words, way: changesOf(block, app) });
      box.append(whole);
      part.append(box);
    }
  }
  return cleanups;
}
