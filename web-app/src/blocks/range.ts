// A range of a chart over time: dragged with a pointer or written, and what a table tells of it.

import type { App, Cleanup } from "../app";
import type { Chart } from "../charts/chart";
import type { Cell, Column, LinesBlock } from "../document/types";
import { element, fill } from "../dom/element";
import { quantity } from "../format/format";
import { pathOf } from "../tables/deeper";
import { lacking } from "./lacking";
import { tableView } from "../tables/view";

interface Loaded {
  columns: Column[];
  rows: Cell[][];
  missing: { what: string; how: string } | null;
}

const MS = 1e6;
const CLICK = 4; // px: less is a click and no range

/** The range that the address holds, in ns of the chart. */
function rangeOf(key: string, app: App): [number, number] | null {
  const [from, to] = app.state.get(`${key}.r`).split("-").map(Number);
  return from !== undefined && to !== undefined && from < to ? [from, to] : null;
}

function choose(key: string, from: number, to: number, app: App): void {
  if (from < to) app.state.set({ [`${key}.r`]: `${Math.max(0, Math.round(from))}-${Math.round(to)}` });
}

/** Beneath the chart: the range in numbers, for the keyboard, and the table of it. */
export function rangePart(block: LinesBlock, key: string, app: App): { part: HTMLElement; cleanup: Cleanup } {
  const { words } = app;
  const origin = block.origin ?? 0;
  const chosen = rangeOf(key, app);
  const last = Math.max(...block.lines.map((line) => line.points.at(-1)?.[0] ?? 0));
  const field = (label: string, at: number) => {
    const input = element("input", { type: "number", step: "any", min: 0, required: true, value: ((at + origin) / MS).toFixed(3), "aria-label": `${label}, ms` });
    return { input, label: element("label", {}, `${label} `, input, " ms") };
  };
  const [from, to] = [field(words.from, chosen?.[0] ?? 0), field(words.to, chosen?.[1] ?? last)];
  const form = element("form", { class: "to-step" }, element("span", {}, words.range), from.label, to.label, element("button", { class: "small" }, words.showRange));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    choose(key, Number(from.input.value) * MS - origin, Number(to.input.value) * MS - origin, app);
  });
  const box = element("div", { class: "range-table" });
  form.append(element("span", { class: "quiet" }, words.rangeHint));
  const part = element("div", {}, form, box);
  return { part, cleanup: chosen ? fillTable(box, block, chosen, key, app) : () => undefined };
}

function fillTable(box: HTMLElement, block: LinesBlock, [from, to]: [number, number], key: string, app: App): Cleanup {
  const { words } = app;
  const [first, last] = [from + (block.origin ?? 0), to + (block.origin ?? 0)].map(Math.round);
  const title = `${block.opens}, ${quantity(first ?? 0, "ns")} – ${quantity(last ?? 0, "ns")}`;
  if (!app.served) {
    fill(box, element("p", {}, `${words.commandFor} `, element("code", {}, `stepscope show ${block.opens} ${pathOf(app.document)} --between ${first}ns ${last}ns`)));
    return () => undefined;
  }
  let clean: Cleanup | undefined;
  let gone = false;
  fill(box, words.loading);
  app.fetchJson<Loaded>(`api/between/${encodeURIComponent(block.opens ?? "")}?from=${first}&to=${last}`).then(
    (loaded) => {
      if (gone) return;
      fill(box);
      if (loaded.missing) box.append(element("p", {}, lacking(loaded.missing, words)));
      else clean = tableView(box, { title, raw: true, columns: loaded.columns, rows: loaded.rows }, app, `${key}.t`);
    },
    (error: unknown) => fill(box, `${words.failed}: ${String(error)}`),
  );
  return () => {
    gone = true;
    clean?.();
  };
}

/** Dragging over the chart chooses a range; the one that is chosen is shaded. Gives what shades it, to be called when the chart is drawn. */
export function draggedRange(box: HTMLElement, key: string, app: App): (chart: Chart) => void {
  const shade = element("div", { class: "shade", hidden: true });
  return (chart) => {
    box.append(shade);
    const place = (one: number, other: number) => {
      shade.hidden = false;
      shade.style.left = `${Math.min(one, other)}px`;
      shade.style.width = `${Math.abs(other - one)}px`;
    };
    const chosen = rangeOf(key, app);
    let start: number | null = null; // where the pointer went down
    const shadeChosen = () => {
      if (start !== null) return;
      shade.hidden = chosen === null;
      if (chosen) place(pixel(chart, chosen[0]), pixel(chart, chosen[1]));
    };
    shadeChosen();
    chart.on("finished", shadeChosen);
    const left = (event: PointerEvent) => event.clientX - box.getBoundingClientRect().left;
    box.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || !chart.containPixel("grid", [left(event), 60])) return;
      start = left(event);
      box.setPointerCapture(event.pointerId);
    });
    box.addEventListener("pointermove", (event) => {
      if (start !== null && Math.abs(left(event) - start) > CLICK) place(start, left(event));
    });
    box.addEventListener("pointerup", (event) => {
      const [from, to] = [Math.min(start ?? 0, left(event)), Math.max(start ?? 0, left(event))];
      const moved = start !== null && to - from > CLICK;
      start = null;
      if (moved) choose(key, value(chart, from), value(chart, to), app);
      else shadeChosen();
    });
    box.addEventListener("pointercancel", () => {
      start = null;
      shadeChosen();
    });
  };
}

function pixel(chart: Chart, x: number): number {
  return Number(chart.convertToPixel({ xAxisIndex: 0 }, x));
}

function value(chart: Chart, x: number): number {
  return Number(chart.convertFromPixel({ xAxisIndex: 0 }, x));
}
