// Values of rows and columns as shades, such as step times of ranks over steps.

import type { App, Cleanup } from "../app";
import type { HeatmapBlock, TableBlock } from "../document/types";
import { axis, drawChart, tooltip, type Led, type Option } from "../charts/chart";
import { element } from "../dom/element";
import { plain, quantity } from "../format/format";
import type { Words } from "../words/en";
import { asTable } from "./as_table";
import { color } from "./colors";
import { goToColumn, hasTimeline, stepForm } from "./when";

const ROW = 18; // px of a row where there are few
const TALLEST = 520;

export function drawHeatmap(host: HTMLElement, block: HeatmapBlock, app: App, key: string): Cleanup {
  const height = Math.min(Math.max(block.ys.length * ROW + 90, 150), TALLEST);
  const box = element("div", { class: "chart", role: "img", "aria-label": app.words.say(plain(block.title)) });
  box.style.height = `${height}px`;
  const { details, clean } = asTable(() => tableOf(block), app, key);
  host.append(element("figure", {}, element("figcaption", {}, app.words.say(plain(block.title))), box, details));
  let led: Led | undefined;
  if (block.x === "step" && block.y === "rank" && hasTimeline(app)) {
    details.before(stepForm(block.xs, block.ys, app));
    box.classList.add("leads");
    led = (chart, at) => {
      if (!chart.containPixel("grid", at)) return;
      const [x = 0, y = 0] = chart.convertFromPixel("grid", at);
      goToColumn(block.xs, Math.round(x), block.ys[Math.round(y)] ?? null, app);
    };
  }
  const cleanup = drawChart(box, () => option(block, app.words), led);
  return () => [clean, cleanup].forEach((one) => one());
}

function option(block: HeatmapBlock, words: Words): Option {
  const values = block.values.flat().filter((value): value is number => value !== null);
  const [least, most] = values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
  return {
    grid: { left: 8, right: 16, top: 8, bottom: 58, containLabel: true },
    tooltip: tooltip({
      formatter: (point: { value: [number, number, number] }) => {
        const [x, y, value] = point.value;
        return `${words.say(block.y)} ${block.ys[y]}, ${words.say(block.x)} ${block.xs[x]}\n${quantity(value, block.unit)}`;
      },
    }),
    xAxis: axis({ type: "category", data: block.xs.map(String), splitLine: { show: false }, name: words.say(block.x), nameLocation: "middle", nameGap: 24 }),
    yAxis: axis({ type: "category", data: block.ys.map(String), inverse: true, splitLine: { show: false }, name: "" }),
    visualMap: {
      min: least,
      max: most,
      calculable: false,
      orient: "horizontal",
      left: "center",
      bottom: 0,
      itemWidth: 10,
      itemHeight: 120,
      textStyle: { color: color("--quiet") },
      text: [quantity(most, block.unit), quantity(least, block.unit)],
      inRange: { color: [color("--heat0"), color("--heat1"), color("--heat2")] },
    },
    series: [{ type: "heatmap", data: block.values.flatMap((row, y) => row.map((value, x) => [x, y, value])).filter((point) => point[2] !== null) }],
  };
}

function tableOf(block: HeatmapBlock): TableBlock {
  return {
    kind: "table",
    title: "",
    columns: [{ name: block.y, unit: null }, ...block.xs.map((x) => ({ name: `${block.x} ${x}`, unit: block.unit }))],
    rows: block.ys.map((y, at) => [y, ...(block.values[at] ?? [])]),
  };
}
