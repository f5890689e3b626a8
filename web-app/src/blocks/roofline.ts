// How near kinds of work come to what their device can do: speed over intensity, both logarithmic, below the roofs.

import type { App, Cleanup } from "../app";
import { axis, drawChart, tooltip, type Option } from "../charts/chart";
import type { RooflineBlock, TableBlock } from "../document/types";
import { element } from "../dom/element";
import { plain, quantity } from "../format/format";
import type { Words } from "../words/en";
import { asTable } from "./as_table";
import { color, looks } from "./colors";

const [SMALLEST, LARGEST] = [8, 34]; // px across a point: its area is the time of the kind
const NARROW = 600; // px of a page on which a legend takes a second line
const AROUND = 3; // times beyond the outermost point or ridge that an axis goes on

export function drawRoofline(host: HTMLElement, block: RooflineBlock, app: App, key: string): Cleanup {
  const box = element("div", { class: "chart roofline", role: "img", "aria-label": spoken(block, app.words) });
  const { details, clean } = asTable(() => tableOf(block), app, key);
  host.append(element("figure", {}, element("figcaption", {}, app.words.say(plain(block.title))), box, details));
  const cleanup = drawChart(box, () => option(block, app.words));
  return () => [clean, cleanup].forEach((one) => one());
}

/** The speed that a roof allows at an intensity. */
function allowed(block: RooflineBlock, peak: number, intensity: number): number {
  return Math.min(peak, intensity * block.bandwidth);
}

function option(block: RooflineBlock, words: Words): Option {
  const ridges = block.roofs.map((roof) => roof.peak / block.bandwidth);
  const xs = [...block.points.map((point) => point.intensity), ...ridges];
  const [left, right] = [decade(Math.min(...xs) / AROUND, Math.floor), decade(Math.max(...xs) * AROUND, Math.ceil)];
  const speeds = [...block.points.map((point) => point.speed), ...block.roofs.map((roof) => roof.peak)];
  const [bottom, top] = [decade(Math.min(...speeds) / AROUND, Math.floor), decade(Math.max(...speeds) * 1.2, Math.ceil)];
  const colors = looks(block.points.map((point) => point.label)).map((at) => color(`--p${at}`));
  const most = Math.max(...block.points.map((point) => point.total), 1);
  return {
    color: colors,
    grid: { left: 8, right: 24, top: innerWidth < NARROW ? 54 : 30, bottom: 24, containLabel: true },
    legend: { top: 0, left: 0, itemWidth: 12, itemHeight: 8, textStyle: { color: color("--ink") }, data: block.points.map((point) => words.say(plain(point.label))) },
    tooltip: tooltip({ trigger: "item", formatter: (point: { dataIndex: number; seriesIndex: number }) => told(block, point.seriesIndex - block.roofs.length, words) }),
    xAxis: axis({ type: "log", min: left, max: right, name: words.perByte, nameLocation: "middle", nameGap: 24, axisLabel: { formatter: (value: number) => quantity(value, null, true) } }),
    yAxis: axis({ type: "log", min: bottom, max: top, axisLabel: { formatter: (value: number) => quantity(value, "FLOP/s", true) } }),
    series: [
      ...block.roofs.map((roof) => roofSeries(block, roof, left, right)),
      ...block.points.map((point, at) => ({
        name: words.say(plain(point.label)),
        type: "scatter",
        symbolSize: SMALLEST + (LARGEST - SMALLEST) * Math.sqrt(point.total / most),
        itemStyle: { color: colors[at], opacity: 0.85, borderColor: color("--page"), borderWidth: 1 },
        data: [[point.intensity, point.speed]],
      })),
    ],
  };
}

/** Sloped where the memory limits, flat beyond the ridge. */
function roofSeries(block: RooflineBlock, roof: RooflineBlock["roofs"][number], left: number, right: number): Option {
  const ridge = roof.peak / block.bandwidth;
  return {
    type: "line",
    silent: true,
    symbol: "none",
    lineStyle: { color: color("--quiet"), width: 1.5 },
    data: [[left, allowed(block, roof.peak, left)], [ridge, roof.peak], [right, roof.peak]],
    markPoint: undefined,
    endLabel: { show: true, formatter: `${plain(roof.label)} ${quantity(roof.peak, "FLOP/s", true)}`, color: color("--quiet"), align: "right", verticalAlign: "bottom", offset: [-6, -3] },
  };
}

function decade(value: number, round: (value: number) => number): number {
  return 10 ** round(Math.log10(value));
}

function told(block: RooflineBlock, at: number, words: Words): string {
  const point = block.points[at];
  if (!point) return "";
  const roof = Math.max(...block.roofs.map((one) => allowed(block, one.peak, point.intensity)));
  return [
    words.say(plain(point.label)),
    `${quantity(point.speed, "FLOP/s", true)} ${words.of} ${quantity(roof, "FLOP/s", true)} (${quantity(point.speed / roof, "ratio")})`,
    `${quantity(point.intensity, null, true)} ${words.perByte}`,
    quantity(point.total, "ns"),
  ].join("\n");
}

function spoken(block: RooflineBlock, words: Words): string {
  return `${words.say(plain(block.title))}. ${block.points.map((point) => `${words.say(plain(point.label))}: ${quantity(point.speed, "FLOP/s", true)}`).join("; ")}`;
}

function tableOf(block: RooflineBlock): TableBlock {
  return {
    kind: "table",
    title: "",
    columns: [
      { name: "kind of work", unit: null },
      { name: "intensity", unit: null, decimal: true },
      { name: "speed", unit: "FLOP/s", decimal: true },
      { name: "total", unit: "ns" },
    ],
    rows: block.points.map((point) => [point.label, point.intensity, point.speed, point.total]),
  };
}
