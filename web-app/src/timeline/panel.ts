// Below the tracks: all that is known of the selected span, and what is in the window by name.

import { copyButton } from "../dom/copy";
import { element, fill } from "../dom/element";
import type { Cell, Unit } from "../document/types";
import { ABSENT, cell, quantity } from "../format/format";
import { categoryFill } from "./palette";
import { moment } from "./scale";
import { GROUPS } from "./aggregates";
import type { Argument, Category, Link, NameSum, SpanEvent, Sums, Window } from "./types";
import type { TimelineWords } from "./words";

const ROWS = 100;

/** An argument as text: in its unit, where that is one of the page's. */
export function argumentText(argument: Argument): string {
  return cell(argument.value as Cell, argument.unit as Unit | null, typeof argument.value === "number" && !Number.isInteger(argument.value), 600);
}

export function swatch(category: Category, dark: boolean): HTMLElement {
  const made = element("i", { class: "swatch", "aria-hidden": "true" });
  made.style.backgroundColor = categoryFill(category, dark);
  return made;
}

export function showDetails(host: HTMLElement, event: SpanEvent, words: TimelineWords, dark: boolean, open: (link: Link) => void, zoom: () => void, say = (text: string) => text): void {
  const rows: [string, Node | string, string][] = [
    [words.takes, quantity(event.end - event.ref.start, "ns"), `${(event.end - event.ref.start).toLocaleString("en")} ns`],
    [words.at, moment(event.ref.start, 1), ""],
  ];
  if (event.place) rows.push([words.source, element("code", {}, event.place), ""]);
  for (const argument of event.arguments) rows.push([words.argument(argument.name.replaceAll("_", " ")), argumentText(argument), say(argument.meaning)]);
  const links = event.links.map((link) => {
    const button = element("button", { type: "button", class: "link", title: link.name }, link.name);
    button.addEventListener("click", () => open(link));
    return element("div", {}, element("dt", {}, words.what[link.what] ?? link.what), element("dd", {}, button, ` ${quantity(link.end - link.ref.start, "ns")}`));
  });
  const text = () => [event.name, ...rows.map(([name, value]) => `${name}: ${typeof value === "string" ? value : value.textContent}`), ...event.links.map((link) => `${link.what}: ${link.name}`)].join("\n");
  fill(
    host,
    element("h3", {}, swatch(event.category, dark), element("span", { class: "name" }, event.name)),
    element("p", { class: "actions" }, element("span", { class: "quiet" }, words.categories[event.category]), copyButton(words.copy, words.copied, text), element("button", { type: "button", class: "small", onclick: zoom }, words.zoomTo)),
    element("dl", { class: "told" }, ...rows.map(([name, value, meaning]) => element("div", { title: meaning || undefined }, element("dt", {}, name), element("dd", {}, value))), ...links),
  );
}

export function showSums(host: HTMLElement, sums: Sums, window: Window, measured: boolean, words: TimelineWords, dark: boolean): void {
  const length = window.end - window.start;
  const heads: [string, string][] = [[words.name, ""], [words.count, ""], [words.own, words.ownHint], [words.sum, words.sumHint], [words.union, words.unionHint], [words.longest, words.longestHint]];
  const line = (row: NameSum) =>
    element(
      "tr", {},
      element("td", { title: row.name }, swatch(row.category, dark), row.name),
      element("td", {}, row.count.toLocaleString("en")),
      element("td", {}, quantity(row.own, "ns")),
      element("td", {}, quantity(row.sum, "ns")),
      element("td", row.union === null ? { title: words.tooMany } : {}, row.union === null ? ABSENT : `${quantity(row.union, "ns")} (${quantity(row.union / length, "ratio")})`),
      element("td", {}, quantity(row.longest, "ns")),
    );
  const bodies = GROUPS.flatMap((group) => {
    const rows = sums.rows.filter((row) => row.group === group);
    const head = element("tr", { class: "group" }, element("th", { scope: "rowgroup", colspan: heads.length }, words.groups[group]));
    return rows.length ? [element("tbody", { "data-group": group }, head, ...rows.slice(0, ROWS).map(line))] : [];
  });
  const title = `${measured ? words.selection : words.window}: ${quantity(length, "ns")}, ${sums.spans.toLocaleString("en")} ${words.spans}`;
  const more = sums.names > ROWS ? element("p", { class: "quiet" }, `${sums.names.toLocaleString("en")} ${words.rowsOf}`) : null;
  fill(
    host,
    element("h3", {}, title),
    bodies.length
      ? element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title }, element("table", {}, element("thead", {}, element("tr", {}, ...heads.map(([head, hint]) => element("th", { scope: "col", title: hint || undefined }, head)))), ...bodies))
      : element("p", { class: "quiet" }, words.nothing),
    more,
    sums.rows.some((row) => row.union === null) ? element("p", { class: "quiet" }, `${words.union}: ${words.tooMany}`) : null,
  );
}
