// ECharts with the parts that the page uses, in the colors of the style sheet.

import { BarChart, CustomChart, HeatmapChart, LineChart, ScatterChart } from "echarts/charts";
import {
  DataZoomComponent,
  GridComponent,
  LegendComponent,
  MarkLineComponent,
  TooltipComponent,
  VisualMapComponent,
} from "echarts/components";
import * as echarts from "echarts/core";
import { CanvasRenderer } from "echarts/renderers";
import type { Cleanup } from "../app";
import { color } from "../blocks/colors";

echarts.use([
  BarChart,
  CanvasRenderer,
  CustomChart,
  DataZoomComponent,
  GridComponent,
  HeatmapChart,
  LegendComponent,
  LineChart,
  MarkLineComponent,
  ScatterChart,
  TooltipComponent,
  VisualMapComponent,
]);

export type Option = Record<string, unknown>;

export type Chart = echarts.ECharts;

/** What a click on a chart does, at px of it. */
export type Led = (chart: Chart, at: [number, number]) => void;

/** Draw a chart into `host`, and again in other colors when the theme changes; `option` is asked each time. `onPoint`: a click, in pixels; `drawn` gets the chart. */
export function drawChart(host: HTMLElement, option: () => Option, onPoint?: Led, drawn?: (chart: Chart) => void): Cleanup {
  const chart = echarts.init(host, null, { renderer: "canvas" });
  const draw = () => chart.setOption({ animation: false, textStyle: { color: color("--ink") }, ...option() } as echarts.EChartsCoreOption, true);
  draw();
  if (onPoint) chart.getZr().on("click", (event) => onPoint(chart, [event.offsetX, event.offsetY]));
  drawn?.(chart);
  const sizes = new ResizeObserver(() => chart.resize());
  sizes.observe(host);
  window.addEventListener("stepscope-theme", draw);
  return () => {
    sizes.disconnect();
    window.removeEventListener("stepscope-theme", draw);
    chart.dispose();
  };
}

/** An axis in quiet colors. */
export function axis(more: Option): Option {
  return {
    axisLine: { lineStyle: { color: color("--line") } },
    axisTick: { show: false },
    axisLabel: { color: color("--quiet"), ...(more["axisLabel"] as Option | undefined) },
    splitLine: { lineStyle: { color: color("--line") } },
    nameTextStyle: { color: color("--quiet") },
    ...Object.fromEntries(Object.entries(more).filter(([name]) => name !== "axisLabel")),
  };
}

/** A tooltip that is painted, not made of elements: names in it can never become markup. */
export function tooltip(more: Option): Option {
  return {
    renderMode: "richText",
    confine: true,
    backgroundColor: color("--card"),
    borderColor: color("--line"),
    textStyle: { color: color("--ink"), fontSize: 12 },
    ...more,
  };
}
