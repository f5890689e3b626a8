// What several did over one time, one lane below the other, such as the workers of a loader.

import type { App, Cleanup } from "../app";
import type { LanesBlock, TableBlock } from "../document/types";
import { element } from "../dom/element";
import { onAxis, plain, quantity } from "../format/format";
import type { Words } from "../words/en";
import { asTable } from "./as_table";
import { looks } from "./colors";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 10_000; // units of the drawing, stretched to the page
const MARKS = 4;

export function drawLanes(host: HTMLElement, block: LanesBlock, app: App, key: string): Cleanup {
  const colors = new Map(block.kinds.map((kind, at) => [kind, looks(block.kinds)[at] ?? 0]));
  const rows = block.lanes.flatMap((lane) => [element("span", { class: "lane-name" }, app.words.say(plain(lane.label))), laneOf(lane, block, colors, app.words)]);
  const marks = Array.from({ length: MARKS + 1 }, (_, at) => element("span", {}, onAxis((block.length * at) / MARKS, "ns", block.length)));
  const legend = block.kinds.map((kind) => element("li", {}, element("i", { class: `part${colors.get(kind)}` }), app.words.say(plain(kind))));
  const { details, clean } = asTable(() => tableOf(block), app, key);
  host.append(
    element(
      "figure", {},
      element("figcaption", {}, app.words.say(plain(block.title))),
      element("ul", { class: "legend" }, ...legend),
      element("div", { class: "lanes" }, ...rows, element("span", {}), element("div", { class: "lane-marks", "aria-hidden": "true" }, ...marks)),
      details,
    ),
  );
  return clean;
}

function laneOf(lane: LanesBlock["lanes"][number], block: LanesBlock, colors: ReadonlyMap<string, number>, words: Words): SVGSVGElement {
  const drawing = document.createElementNS(SVG, "svg");
  drawing.setAttribute("viewBox", `0 0 ${WIDTH} 10`);
  drawing.setAttribute("preserveAspectRatio", "none");
  drawing.setAttribute("role", "img");
  drawing.setAttribute("aria-label", `${words.say(plain(lane.label))}: ${[...sums(lane)].map(([what, time]) => `${words.say(plain(what))} ${quantity(time, "ns", true)}`).join("; ")}`);
  const scale = WIDTH / Math.max(block.length, 1);
  for (const [start, end, what] of lane.spans) {
    const box = document.createElementNS(SVG, "rect");
    box.setAttribute("class", `part${colors.get(what) ?? 0}`);
    box.setAttribute("x", (start * scale).toFixed(1));
    box.setAttribute("width", ((end - start) * scale).toFixed(1));
    box.setAttribute("height", "10");
    const title = document.createElementNS(SVG, "title");
    title.textContent = `${words.say(plain(lane.label))}: ${words.say(plain(what))}, ${quantity(end - start, "ns")}`;
    box.append(title);
    drawing.append(box);
  }
  return drawing;
}

function sums(lane: LanesBlock["lanes"][number]): ReadonlyMap<string, number> {
  const found = new Map<string, number>();
  for (const [start, end, what] of lane.spans) found.set(what, (found.get(what) ?? 0) + end - start);
  return found;
}

function tableOf(block: LanesBlock): TableBlock {
  const all = block.lanes.map((lane) => sums(lane));
  return {
    kind: "table",
    title: "",
    columns: [{ name: "who", unit: null }, ...block.kinds.map((kind) => ({ name: kind, unit: "ns" as const }))],
    rows: block.lanes.map((lane, at) => [lane.label, ...block.kinds.map((kind) => all[at]?.get(kind) ?? null)]),
  };
}
