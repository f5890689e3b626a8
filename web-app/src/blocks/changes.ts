// Differences B less A: a bar from zero, blue to the left for what got faster, orange to the right for what got slower,
// and always the sign and the word, so that nothing hangs on a color.

import type { App } from "../app";
import type { Cell, TableBlock, Unit } from "../document/types";
import { element } from "../dom/element";
import { signed } from "../format/format";
import { unbroken } from "./words";

const SVG = "http://www.w3.org/2000/svg";
const HALF = 100; // units of the drawing from zero to the largest difference

/** The cell of a difference; `most` is the largest there is. */
export function changeCell(value: number, unit: Unit | null, most: number, sides: { a: Cell; b: Cell }, app: App): HTMLElement {
  return element(
    "span",
    { class: "change" },
    changeBar(value, most),
    element("span", { class: "amount" }, unbroken(signed(value, unit))),
    element("span", { class: "way" }, wayWords(value, sides, app)),
  );
}

/** What draws the column of differences of a table, where it has one. */
export function changesOf(block: TableBlock, app: App): (row: readonly Cell[], at: number) => HTMLElement | null {
  const at = block.change;
  if (at === undefined) return () => null;
  const most = block.rows.reduce((all, row) => Math.max(all, Math.abs(Number(row[at]) || 0)), 0);
  const unit = block.columns[at]?.unit ?? null;
  return (row, column) => {
    const value = row[at];
    if (column !== at || typeof value !== "number") return null;
    return changeCell(value, unit, most, { a: row[at - 2] ?? null, b: row[at - 1] ?? null }, app);
  };
}

function wayWords(value: number, sides: { a: Cell; b: Cell }, app: App): string {
  const { words } = app;
  const way = value < 0 ? words.faster : value > 0 ? words.slower : words.unchanged;
  if (sides.a === null && sides.b !== null) return way + words.onlyB;
  return sides.b === null && sides.a !== null ? way + words.onlyA : way;
}

function changeBar(value: number, most: number): SVGSVGElement {
  const drawing = document.createElementNS(SVG, "svg");
  drawing.setAttribute("viewBox", `0 0 ${2 * HALF} 10`);
  drawing.setAttribute("preserveAspectRatio", "none");
  drawing.setAttribute("aria-hidden", "true");
  const length = most ? (Math.abs(value) / most) * HALF : 0;
  drawing.append(box(value < 0 ? HALF - length : HALF, length, 1, 8, value < 0 ? "faster" : "slower"), box(HALF - 0.5, 1, 0, 10, "zero"));
  return drawing;
}

function box(x: number, width: number, y: number, height: number, kind: string): SVGRectElement {
  const made = document.createElementNS(SVG, "rect");
  made.setAttribute("class", kind);
  for (const [name, value] of Object.entries({ x, width, y, height })) made.setAttribute(name, value.toFixed(2));
  return made;
}
