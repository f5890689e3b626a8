// The places in the code that a finding is of, with the source lines that the run keeps around each.

import type { App } from "../app";
import type { Place } from "../document/types";
import { element } from "../dom/element";
import { codeLines, placeText, plain, quantity } from "../format/format";
import { editorAddress } from "../shell/editor";
import { breakable } from "./words";

const SHOWN = 1; // places above the fold: the others are one key away

export function drawPlaces(where: readonly Place[], app: App): HTMLElement | string {
  if (!where.length) return "";
  const items = where.map((place) => drawPlace(place, app));
  const shown = element("ul", { class: "places", "aria-label": app.words.source }, ...items.slice(0, SHOWN));
  if (items.length <= SHOWN) return shown;
  const rest = element("details", {}, element("summary", { class: "quiet" }, `${app.words.morePlaces}: ${items.length - SHOWN}`), element("ul", { class: "places", "aria-label": app.words.source }, ...items.slice(SHOWN)));
  return element("div", {}, shown, rest);
}

function drawPlace(place: Place, app: App): HTMLElement {
  const address = editorAddress(place, app);
  const text = breakable(placeText(place));
  const name = address ? element("a", { href: address, title: app.words.openEditor }, text) : text;
  const share = typeof place.share === "number" ? element("span", { class: "share" }, element("b", {}, quantity(place.share, "ratio")), app.words.ofWhole(app.words.say(plain(place.of)))) : null;
  const lines = place.around.length ? around(place, app) : oneLine(place);
  return element("li", {}, element("div", { class: "place" }, element("code", {}, name), share), lines);
}

function oneLine(place: Place): HTMLElement | null {
  const line = place.text.trim();
  return line ? element("pre", { class: "source-lines", tabindex: "0" }, element("span", { class: "hot" }, sourceLine(String(place.line), line, true))) : null;
}

/** The lines with their numbers, the one at fault marked; what all of them are indented by is left out, and blank ones around them. */
function around(place: Place, app: App): HTMLElement {
  const all = place.around.map((line) => codeLines(line)[0] ?? "");
  const [begin, end] = [all.findIndex(written), all.findLastIndex(written)];
  const lines = begin < 0 ? all : all.slice(begin, end + 1);
  const indent = Math.min(...lines.filter(written).map((line) => line.length - line.trimStart().length));
  const first = place.first + Math.max(begin, 0);
  const rows = lines.map((line, at) => element("span", first + at === place.line ? { class: "hot", title: app.words.hotLine } : {}, sourceLine(String(first + at).padStart(String(first + lines.length - 1).length), line.slice(Number.isFinite(indent) ? indent : 0), first + at === place.line)));
  return element("pre", { class: "source-lines", tabindex: "0" }, ...rows);
}

function written(line: string): boolean {
  return line.trim() !== "";
}

function sourceLine(number: string, text: string, hot: boolean): DocumentFragment {
  const made = document.createDocumentFragment();
  made.append(element("i", { "aria-hidden": "true" }, `${hot ? "▶" : " "} ${number} `), plain(text, 400), "\n");
  return made;
}
