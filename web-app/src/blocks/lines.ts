// Curves over steps or time, with a table of the same for those who would rather read.

import type { App, Cleanup } from "../app";
import type { LinesBlock, TableBlock } from "../document/types";
import { axis, drawChart, tooltip, type Option } from "../charts/chart";
import { element } from "../dom/element";
import { plain, quantity } from "../format/format";
import { colour, looks } from "./colours";
import { drawTable } from "./table";
import { goToColumn, goToMoment, hasTimeline, stepForm } from "./when";

const FEW = 160; // bars that are wide enough to be seen apart

export function drawLines(host: HTMLElement, block: LinesBlock, app: App): Cleanup {
  const box = element("div", { class: "chart", role: "img", "aria-label": spoken(block) });
  const since = block.x === "time" && block.began ? { began: block.began, clock: "trace" as const } : null;
  const details = element("details", { class: "as-table" }, element("summary", { class: "small" }, app.words.asTable));
  details.addEventListener("toggle", () => {
    if (details.open && details.childElementCount === 1) drawTable(details, asTable(block), app, "", since);
  });
  host.append(element("figure", {}, element("figcaption", {}, plain(block.title)), box, details));
  if (since && hasTimeline(app)) {
    box.classList.add("leads");
    return drawChart(box, () => option(block), (chart, at) => {
      if (chart.containPixel("grid", at)) goToMoment(since.began, chart.convertFromPixel("grid", at)[0] ?? 0, app);
    });
  }
  if (block.x !== "step" || !hasTimeline(app)) return drawChart(box, () => option(block));
  const xs = (block.lines[0]?.points ?? []).map(([x]) => x);
  details.before(stepForm(xs, [], app));
  box.classList.add("leads");
  return drawChart(box, () => option(block), (chart, at) => {
    if (!chart.containPixel("grid", at)) return;
    const x = chart.convertFromPixel("grid", at)[0] ?? 0;
    goToColumn(xs, isBars(block) ? Math.round(x) : xs.findLastIndex((one) => one <= x), null, app);
  });
}

function isBars(block: LinesBlock): boolean {
  return block.stacked && Math.max(...block.lines.map((line) => line.points.length)) <= FEW;
}

function option(block: LinesBlock): Option {
  const colours = looks(block.lines.map((line) => line.label)).map((at) => colour(`--p${at}`));
  const bars = isBars(block);
  return {
    color: colours,
    grid: { left: 8, right: 16, top: 34, bottom: 4, containLabel: true },
    legend: { top: 0, left: 0, itemWidth: 12, itemHeight: 8, textStyle: { color: colour("--ink") }, data: block.lines.map((line) => plain(line.label)) },
    tooltip: tooltip({ trigger: "axis", formatter: (points: Point[]) => told(block, points) }),
    xAxis: axis({
      type: bars ? "category" : "value",
      name: "",
      min: bars ? undefined : "dataMin",
      max: bars ? undefined : "dataMax",
      splitLine: { show: false },
      axisLabel: { formatter: (x: number | string) => quantity(Number(x), block.x_unit) },
    }),
    yAxis: axis({ type: "value", axisLabel: { formatter: (y: number) => quantity(y, block.unit) }, max: top(block), interval: block.unit === "bytes" ? bytesApart(block) : undefined }),
    dataZoom: [{ type: "inside", zoomOnMouseWheel: "ctrl", moveOnMouseMove: true }],
    series: block.lines.map((line, at) => series(block, line, bars, at === 0)),
  };
}

function series(block: LinesBlock, line: LinesBlock["lines"][number], bars: boolean, first: boolean): Option {
  return {
    name: plain(line.label),
    type: bars ? "bar" : "line",
    stack: block.stacked ? "all" : undefined,
    barCategoryGap: "12%",
    areaStyle: block.stacked && !bars ? { opacity: 0.85 } : undefined,
    lineStyle: { width: block.stacked ? 0 : 1.5 },
    symbol: "none",
    step: block.stacked ? undefined : "end",
    large: false,
    data: bars ? line.points.map(([x, y]) => [String(x), y]) : line.points,
    markLine: first ? limits(block) : undefined,
  };
}

function limits(block: LinesBlock): Option | undefined {
  if (!block.limits.length) return undefined;
  return {
    silent: true,
    symbol: "none",
    lineStyle: { color: colour("--warn"), type: "dashed" },
    label: { position: "insideStartTop", color: colour("--ink"), formatter: (mark: { name: string }) => mark.name },
    data: block.limits.map((limit) => ({ yAxis: limit.value, name: `${plain(limit.label)} ${quantity(limit.value, block.unit)}` })),
  };
}

/** Limits are to be seen, though the curves stay far below them. */
function top(block: LinesBlock): ((range: { max: number }) => number) | undefined {
  if (!block.limits.length) return undefined;
  return ({ max }) => Math.max(max, ...block.limits.map((limit) => limit.value)) * 1.04;
}

/** Marks at powers of two, about four of them. */
function bytesApart(block: LinesBlock): number {
  const values = [...block.lines.flatMap((line) => line.points.map(([, y]) => y ?? 0)), ...block.limits.map((limit) => limit.value)];
  return 2 ** Math.max(0, Math.floor(Math.log2(Math.max(1, values.reduce((one, other) => Math.max(one, other), 0)) / 3)));
}

interface Point {
  seriesName: string;
  value: [number | string, number | null];
}

function told(block: LinesBlock, points: Point[]): string {
  const [first] = points;
  if (!first) return "";
  const lines = points.map((point) => `${point.seriesName}  ${quantity(point.value[1], block.unit)}`);
  const sum = points.reduce((all, point) => all + (point.value[1] ?? 0), 0);
  const total = block.stacked ? [`=  ${quantity(sum, block.unit)}`] : [];
  return [`${block.x} ${quantity(Number(first.value[0]), block.x_unit)}`, ...lines, ...total].join("\n");
}

function spoken(block: LinesBlock): string {
  const parts = block.lines.map((line) => {
    const values = line.points.flatMap(([, y]) => (y === null ? [] : [y]));
    const most = values.reduce((one, other) => Math.max(one, other), 0);
    return `${plain(line.label)}: ≤ ${quantity(most, block.unit)}`;
  });
  return `${plain(block.title)}. ${parts.join("; ")}`;
}

function asTable(block: LinesBlock): TableBlock {
  const xs = [...new Set(block.lines.flatMap((line) => line.points.map(([x]) => x)))].sort((one, other) => one - other);
  const columns = block.lines.map((line) => new Map(line.points));
  return {
    kind: "table",
    title: "",
    columns: [{ name: block.x, unit: block.x_unit }, ...block.lines.map((line) => ({ name: line.label, unit: block.unit, decimal: true }))],
    rows: xs.map((x) => [x, ...columns.map((column) => column.get(x) ?? null)]),
  };
}
