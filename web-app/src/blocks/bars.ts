// One stacked bar: parts of one whole, with their names, shares and values beneath.

import type { App } from "../app";
import type { BarsBlock } from "../document/types";
import { element } from "../dom/element";
import { plain, quantity } from "../format/format";
import { looks } from "./colors";
import { explainedLabel } from "./terms";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 1000; // units of the drawing, stretched to the page

export function drawBars(host: HTMLElement, block: BarsBlock, app: App): void {
  const values = block.parts.map((part) => Math.max(part.value ?? 0, 0));
  const sum = values.reduce((one, other) => one + other, 0);
  const scale = WIDTH * (block.whole ? Math.min(sum / block.whole, 1) : 1);
  const labels = block.parts.map((part, index) => {
    const share = sum > 0 ? (values[index] ?? 0) / sum : 0;
    return { label: part.label, name: app.words.say(plain(part.label)), value: quantity(part.value, block.unit), share: quantity(share, "ratio"), width: share * scale };
  });
  const colors = looks(block.parts.map((part) => part.label));
  const drawing = document.createElementNS(SVG, "svg");
  drawing.setAttribute("class", "bar");
  drawing.setAttribute("viewBox", `0 0 ${WIDTH} 10`);
  drawing.setAttribute("preserveAspectRatio", "none");
  drawing.setAttribute("role", "img");
  drawing.setAttribute("aria-label", labels.map((label) => `${label.name} ${label.share}`).join("; "));
  let start = 0;
  labels.forEach((label, index) => {
    drawing.append(part(colors[index] ?? 0, start, label.width, `${label.name}: ${label.value}, ${label.share}`));
    start += label.width;
  });
  const legend = labels.map((label, index) =>
    element("li", {}, element("i", { class: `part${colors[index]}` }), explainedLabel(label.label, label.name, app.words), " ", element("b", {}, label.share), " ", element("span", {}, label.value)),
  );
  host.append(
    element("figure", {}, element("figcaption", {}, app.words.say(plain(block.title))), drawing, element("ul", { class: "legend" }, ...legend)),
  );
}

function part(color: number, start: number, width: number, words: string): SVGRectElement {
  const made = document.createElementNS(SVG, "rect");
  made.setAttribute("class", `part${color}`);
  made.setAttribute("x", start.toFixed(2));
  made.setAttribute("width", width.toFixed(2));
  made.setAttribute("height", "10");
  const title = document.createElementNS(SVG, "title");
  title.textContent = words;
  made.append(title);
  return made;
}
