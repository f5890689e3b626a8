// Curves over steps or time, with a table of the same for those who would rather read.

import type { App, Cleanup } from "../app";
import type { LinesBlock, TableBlock } from "../document/types";
import { axis, drawChart, tooltip, type Chart, type Led, type Option } from "../charts/chart";
import { element } from "../dom/element";
import { onAxis, plain, quantity } from "../format/format";
import type { Words } from "../words/en";
import { draggedRange, rangePart } from "./range";
import { asTable } from "./as_table";
import { color, looks } from "./colors";
import { unbroken } from "./words";
import { goToColumn, hasTimeline, stepForm, toMoments } from "./when";

const NARROW = 600; // px of a page on which a legend takes a second line
const FEW = 160; // bars that are wide enough to be seen apart

const NEAR = 0.5; // of a limit: curves that stay below it would be flattened for a line that tells nothing

export function drawLines(host: HTMLElement, whole: LinesBlock, app: App, key: string): Cleanup {
  const { block, far } = withNearLimits(whole);
  const box = element("div", { class: "chart", role: "img", "aria-label": spoken(block, app.words) });
  const since = block.x === "time" && block.began ? { began: block.began, clock: "trace" as const } : null;
  const { details, clean } = asTable(() => tableOf(block), app, key, since);
  const note = far.map((limit) => element("p", { class: "quiet" }, unbroken(`${app.words.say(limit.label)} ${quantity(limit.value, block.unit)}: ${app.words.atMost} ${quantity(highest(block) / limit.value, "ratio")}`)));
  host.append(element("figure", {}, element("figcaption", {}, app.words.say(plain(block.title))), ...note, box, details));
  const cleanups = [clean];
  let led: Led | undefined;
  let drawn: ((chart: Chart) => void) | undefined;
  if (since && hasTimeline(app)) led = toMoments(since.began, app);
  if (block.x === "step" && hasTimeline(app)) {
    const xs = (block.lines[0]?.points ?? []).map(([x]) => x);
    details.before(stepForm(xs, [], app));
    led = (chart, at) => {
      if (!chart.containPixel("grid", at)) return;
      const x = chart.convertFromPixel("grid", at)[0] ?? 0;
      goToColumn(xs, isBars(block) ? Math.round(x) : xs.findLastIndex((one) => one <= x), null, app);
    };
  }
  if (led) box.classList.add("leads");
  if (block.opens) {
    const { part, cleanup } = rangePart(block, key, app);
    details.before(part);
    cleanups.push(cleanup);
    drawn = draggedRange(box, key, app);
  }
  cleanups.push(drawChart(box, () => option(block, app.words), led, drawn));
  return () => cleanups.forEach((one) => one());
}

/** Limits that the curves come near to stay lines of the chart; the others are told beside it. */
function withNearLimits(block: LinesBlock): { block: LinesBlock; far: LinesBlock["limits"] } {
  const most = highest({ ...block, limits: [] });
  const far = block.limits.filter((limit) => most < NEAR * limit.value);
  return { block: { ...block, limits: block.limits.filter((limit) => !far.includes(limit)) }, far };
}

function isBars(block: LinesBlock): boolean {
  return block.stacked && Math.max(...block.lines.map((line) => line.points.length)) <= FEW;
}

function option(block: LinesBlock, words: Words): Option {
  const colors = looks(block.lines.map((line) => line.label)).map((at) => color(`--p${at}`));
  const bars = isBars(block);
  const last = Math.max(0, ...block.lines.map((line) => line.points.at(-1)?.[0] ?? 0));
  const most = highest(block);
  return {
    color: colors,
    grid: { left: 8, right: 16, top: innerWidth < NARROW && block.lines.length > 3 ? 54 : 34, bottom: 4, containLabel: true },
    legend: { top: 0, left: 0, itemWidth: 12, itemHeight: 8, textStyle: { color: color("--ink") }, data: block.lines.map((line) => words.say(plain(line.label))) },
    tooltip: tooltip({ trigger: "axis", formatter: (points: Point[]) => told(block, points, words) }),
    xAxis: axis({
      type: bars ? "category" : "value",
      name: "",
      min: bars ? undefined : "dataMin",
      max: bars ? undefined : "dataMax",
      splitLine: { show: false },
      axisLabel: { formatter: (x: number | string) => onAxis(Number(x), block.x_unit, last), hideOverlap: true },
    }),
    yAxis: axis({ type: "value", axisLabel: { formatter: (y: number) => onAxis(y, block.unit, most) }, max: top(block), interval: block.unit === "bytes" ? bytesApart(block) : undefined }),
    dataZoom: block.opens ? [] : [{ type: "inside", zoomOnMouseWheel: "ctrl", moveOnMouseMove: true }],
    series: block.lines.map((line, at) => series(block, line, bars, at === 0, words)),
  };
}

function series(block: LinesBlock, line: LinesBlock["lines"][number], bars: boolean, first: boolean, words: Words): Option {
  return {
    name: words.say(plain(line.label)),
    type: bars ? "bar" : "line",
    stack: block.stacked ? "all" : undefined,
    barCategoryGap: "12%",
    areaStyle: block.stacked && !bars ? { opacity: 0.85 } : undefined,
    lineStyle: { width: block.stacked ? 0 : 1.5 },
    symbol: "none",
    step: block.stacked ? undefined : "end",
    large: false,
    data: bars ? line.points.map(([x, y]) => [String(x), y]) : line.points,
    markLine: first ? limits(block, words) : undefined,
  };
}

function limits(block: LinesBlock, words: Words): Option | undefined {
  if (!block.limits.length) return undefined;
  return {
    silent: true,
    symbol: "none",
    lineStyle: { color: color("--warn"), type: "dashed" },
    label: { position: "insideStartTop", color: color("--ink"), formatter: (mark: { name: string }) => mark.name },
    data: block.limits.map((limit) => ({ yAxis: limit.value, name: `${words.say(plain(limit.label))} ${quantity(limit.value, block.unit)}` })),
  };
}

/** The largest value that is drawn: of what is stacked the sums. */
function highest(block: LinesBlock): number {
  const sums = new Map<number, number>();
  for (const line of block.lines) for (const [x, y] of line.points) sums.set(x, block.stacked ? (sums.get(x) ?? 0) + (y ?? 0) : Math.max(sums.get(x) ?? 0, y ?? 0));
  return [...sums.values(), ...block.limits.map((limit) => limit.value)].reduce((one, other) => Math.max(one, other), 0);
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

function told(block: LinesBlock, points: Point[], words: Words): string {
  const [first] = points;
  if (!first) return "";
  const lines = points.map((point) => `${point.seriesName}  ${quantity(point.value[1], block.unit)}`);
  const sum = points.reduce((all, point) => all + (point.value[1] ?? 0), 0);
  const total = block.stacked ? [`=  ${quantity(sum, block.unit)}`] : [];
  return [`${words.say(block.x)} ${quantity(Number(first.value[0]), block.x_unit)}`, ...lines, ...total].join("\n");
}

function spoken(block: LinesBlock, words: Words): string {
  const parts = block.lines.map((line) => {
    const values = line.points.flatMap(([, y]) => (y === null ? [] : [y]));
    const most = values.reduce((one, other) => Math.max(one, other), 0);
    return `${words.say(plain(line.label))}: ≤ ${quantity(most, block.unit)}`;
  });
  return `${words.say(plain(block.title))}. ${parts.join("; ")}`;
}

function tableOf(block: LinesBlock): TableBlock {
  const xs = [...new Set(block.lines.flatMap((line) => line.points.map(([x]) => x)))].sort((one, other) => one - other);
  const columns = block.lines.map((line) => new Map(line.points));
  return {
    kind: "table",
    title: "",
    columns: [{ name: block.x, unit: block.x_unit }, ...block.lines.map((line) => ({ name: line.label, unit: block.unit, decimal: true }))],
    rows: xs.map((x) => [x, ...columns.map((column) => column.get(x) ?? null)]),
  };
}
