// A chart over steps in the height of two lines of text, which opens the whole chart.

import type { App, Cleanup } from "../app";
import type { LinesBlock } from "../document/types";
import { element } from "../dom/element";
import { plain, quantity } from "../format/format";
import { drawLines } from "./lines";

const SVG = "http://www.w3.org/2000/svg";
const [WIDE, HIGH] = [1000, 40]; // units of the drawing; the style sheet gives the height in px
const TALLEST = 4; // times the median: one step of start-up must not flatten all others
const MOST = 250; // columns that can still be seen apart

export function drawSparkline(host: HTMLElement, block: LinesBlock, app: App, key: string): Cleanup {
  const sums = totals(block);
  const range = sums.length ? `${quantity(Math.min(...sums), block.unit, true)} – ${quantity(Math.max(...sums), block.unit, true)}` : "";
  const title = app.words.say(plain(block.title));
  const cut = sums.some((sum) => sum > tallest(sums)) ? ` · ${app.words.cutBars}` : "";
  const summary = element("summary", { title: app.words.wholeChart }, element("span", { class: "spark-name" }, title, " ", element("span", { class: "quiet" }, range + cut)), drawn(sums));
  const details = element("details", { class: "spark" }, summary);
  let clean: Cleanup | undefined;
  details.addEventListener("toggle", () => {
    if (details.open && !clean) clean = drawLines(details, block, app, key);
  });
  host.append(details);
  return () => clean?.();
}

/** The height of each step: of stacked lines their sum. */
function totals(block: LinesBlock): number[] {
  const sums = new Map<number, number>();
  for (const line of block.lines) for (const [x, y] of line.points) sums.set(x, block.stacked ? (sums.get(x) ?? 0) + (y ?? 0) : Math.max(sums.get(x) ?? 0, y ?? 0));
  const all = [...sums].sort(([one], [other]) => one - other).map(([, y]) => y);
  const size = Math.ceil(all.length / MOST);
  return size < 2 ? all : Array.from({ length: Math.ceil(all.length / size) }, (_, at) => Math.max(...all.slice(at * size, (at + 1) * size)));
}

/** The height of the chart: one step far above the others is cut. */
function tallest(sums: readonly number[]): number {
  const middle = [...sums].sort((one, other) => one - other)[sums.length >> 1] ?? 0;
  return Math.max(Math.min(Math.max(...sums), TALLEST * middle), 1);
}

function drawn(sums: readonly number[]): SVGSVGElement {
  const drawing = document.createElementNS(SVG, "svg");
  drawing.setAttribute("class", "sparkline");
  drawing.setAttribute("viewBox", `0 0 ${WIDE} ${HIGH}`);
  drawing.setAttribute("preserveAspectRatio", "none");
  drawing.setAttribute("aria-hidden", "true");
  const most = tallest(sums);
  const wide = WIDE / Math.max(sums.length, 1);
  const column = (sum: number, at: number) => `M${(at * wide).toFixed(1)} ${HIGH}v${(-Math.min(sum / most, 1) * HIGH).toFixed(1)}h${(wide * 0.86).toFixed(1)}V${HIGH}z`;
  const path = (chosen: (sum: number) => boolean, name: string) => {
    const shape = document.createElementNS(SVG, "path");
    shape.setAttribute("class", name);
    shape.setAttribute("d", sums.map((sum, at) => (chosen(sum) ? column(sum, at) : "")).join(""));
    return shape;
  };
  drawing.append(path((sum) => sum <= most, "whole"), path((sum) => sum > most, "cut"));
  return drawing;
}
