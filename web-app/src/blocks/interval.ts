// A ratio of speeds on a line: where it lies, the interval around it, and the words that say whether it is a difference.

import type { App } from "../app";
import type { IntervalBlock } from "../document/types";
import { element } from "../dom/element";
import { plain, quantity } from "../format/format";
import { sentence, unbroken } from "./words";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 1000; // units of the drawing, stretched to the page
const ROUND = [1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100, 1000];
const ROOM = 1.25; // of the way from 1 to the farthest end
const MARKS = 2; // on each side of 1

export function drawInterval(host: HTMLElement, block: IntervalBlock, app: App): void {
  const { words } = app;
  const ends = [block.low, block.high, ...(block.widened ?? [])].map((end) => Math.abs(Math.log(end)));
  const reach = Math.max(...ends, Math.log(ROUND[0]!)) * ROOM;
  const x = (ratio: number) => (Math.max(-1, Math.min(1, Math.log(ratio) / reach)) + 1) / 2;
  const drawing = document.createElementNS(SVG, "svg");
  drawing.setAttribute("viewBox", `0 0 ${WIDTH} 44`);
  drawing.setAttribute("preserveAspectRatio", "none");
  drawing.setAttribute("aria-hidden", "true");
  const marks = marksWithin(reach);
  for (const mark of marks) drawing.append(line(x(mark), x(mark), 0, 44, mark === 1 ? "one" : "mark"));
  if (block.widened) drawing.append(line(x(block.widened[0]), x(block.widened[1]), 22, 22, "widened"));
  const way = block.outcome === "faster" || block.outcome === "slower" ? block.outcome : "undecided";
  drawing.append(line(x(block.low), x(block.high), 22, 22, `ends ${way}`));
  for (const end of [block.low, block.high]) drawing.append(line(x(end), x(end), 12, 32, `ends ${way}`));
  const point = element("i", { class: `point ${way}` });
  point.style.left = `${100 * x(block.estimate)}%`;
  const scale = element("div", { class: "marks", "aria-hidden": "true" }, ...marks.map((mark) => markAt(mark, x(mark))));
  const ratio = `${quantity(block.estimate, null, true)}× (95 % ${words.interval} ${quantity(block.low, null, true)}–${quantity(block.high, null, true)})`;
  host.append(
    element(
      "figure",
      { class: "interval" },
      element("figcaption", {}, `${words.say(plain(block.title))}: `, element("b", { class: "ratio" }, unbroken(ratio))),
      element("div", { class: "range" }, element("span", {}, `← ${words.bSlower}`), element("span", {}, `${words.bFaster} →`)),
      element("div", { class: "drawn" }, drawing, point),
      scale,
      element("p", { class: "meaning" }, sentence(words.say(block.meaning))),
    ),
  );
}

/** 1, and on each side the roundest ratios that are within reach. */
function marksWithin(reach: number): number[] {
  const inside = ROUND.filter((ratio) => Math.log(ratio) < reach * 0.94).slice(-MARKS);
  return [...inside.map((ratio) => 1 / ratio).reverse(), 1, ...inside];
}

function markAt(mark: number, at: number): HTMLElement {
  const made = element("span", {}, `${quantity(mark, null, true)}×`);
  made.style.left = `${100 * at}%`;
  return made;
}

function line(from: number, to: number, top: number, bottom: number, kind: string): SVGLineElement {
  const made = document.createElementNS(SVG, "line");
  made.setAttribute("class", kind);
  const places = { x1: from * WIDTH, x2: to * WIDTH, y1: top, y2: bottom };
  for (const [name, value] of Object.entries(places)) made.setAttribute(name, value.toFixed(2));
  return made;
}
