// One search over findings, sections, headings of tables and their names.

import type { App, View } from "../app";
import { sentence } from "../blocks/words";
import type { Block } from "../document/types";
import { element, fill } from "../dom/element";
import { plain } from "../format/format";

interface Hit {
  view: string;
  where: string;
  text: string;
}

const MOST = 30;

export function searchBox(app: App, views: readonly View[]): HTMLElement {
  const input = element("input", { type: "search", id: "search", placeholder: matchMedia("(max-width: 52rem)").matches ? app.words.search : app.words.searchHint, "aria-label": app.words.search, autocomplete: "off" });
  const list = element("ul", { class: "hits", hidden: true });
  const all = hits(app, views);
  const draw = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    list.hidden = !words.length;
    const found = all.filter((hit) => words.every((word) => `${hit.where} ${hit.text}`.toLowerCase().includes(word)));
    const items = found.slice(0, MOST).map((hit) => element("li", {}, element("a", { href: app.state.address({ view: hit.view, table: "" }), onclick: () => close(input, list) }, element("span", {}, hit.where), sentence(hit.text))));
    fill(list, ...(items.length ? items : [element("li", { class: "none" }, app.words.noHits)]));
  };
  input.addEventListener("input", draw);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close(input, list);
    if (event.key === "Enter" || event.key === "ArrowDown") list.querySelector("a")?.[event.key === "Enter" ? "click" : "focus"]();
  });
  list.addEventListener("keydown", (event) => moveInside(event, list, input));
  return element("div", { class: "search", role: "search" }, input, list);
}

function close(input: HTMLInputElement, list: HTMLElement): void {
  input.value = "";
  list.hidden = true;
  input.blur();
}

function moveInside(event: KeyboardEvent, list: HTMLElement, input: HTMLInputElement): void {
  const links = [...list.querySelectorAll("a")];
  const at = links.indexOf(document.activeElement as HTMLAnchorElement);
  if (event.key === "ArrowDown") links[at + 1]?.focus();
  else if (event.key === "ArrowUp") (links[at - 1] ?? input).focus();
  else if (event.key === "Escape") close(input, list);
  else return;
  event.preventDefault();
}

function hits(app: App, views: readonly View[]): Hit[] {
  const found: Hit[] = views.map((view) => ({ view: view.name, where: app.words.views, text: view.title(app) }));
  const names = new Set(views.map((view) => view.name));
  for (const section of app.document.sections) {
    const view = names.has(section.name) ? section.name : "overview";
    for (const block of section.blocks) found.push(...hitsOf(block, app).map((text) => ({ view, where: app.words.say(plain(section.title)), text })));
  }
  return found;
}

function hitsOf(block: Block, app: App): string[] {
  if (block.kind === "finding") return [app.words.say(plain(block.title, 400))];
  if (block.kind === "text") return [app.words.say(block.text)];
  if (block.kind === "flame") return [app.words.say(plain(block.title))];
  if (block.kind !== "table") return [];
  const names = block.rows.flatMap((row) => row.filter((value): value is string => typeof value === "string").slice(0, 2));
  return [...(block.title ? [app.words.say(plain(block.title))] : []), ...new Set(names.map((name) => plain(name)))];
}
