// One renderer for each kind of block.

import type { App, Cleanup } from "../app";
import type { Block, FlameBlock } from "../document/types";
import { drawFlames } from "../flame";
import { drawBars } from "./bars";
import { drawFinding } from "./finding";
import { drawHeatmap } from "./heatmap";
import { drawInterval } from "./interval";
import { drawLanes } from "./lanes";
import { drawLines } from "./lines";
import { drawRoofline } from "./roofline";
import { drawTable } from "./table";
import { drawText } from "./text";
import { drawTree } from "./tree";
import { drawVerdict } from "./verdict";

/** Draw a block at the end of `host`. `key` tells tables of a page apart, in the address. */
export function drawBlock(host: HTMLElement, block: Block, app: App, key: string): Cleanup | void {
  switch (block.kind) {
    case "text":
      return drawText(host, block, app);
    case "verdict":
      return drawVerdict(host, block, app);
    case "table":
      return drawTable(host, block, app, key);
    case "bars":
      return drawBars(host, block, app);
    case "finding":
      return drawFinding(host, block, app);
    case "lines":
      return drawLines(host, block, app, key);
    case "heatmap":
      return drawHeatmap(host, block, app, key);
    case "flame":
      return drawFlames(host, [block], app, key);
    case "lanes":
      return drawLanes(host, block, app, key);
    case "roofline":
      return drawRoofline(host, block, app, key);
    case "interval":
      return drawInterval(host, block, app);
    case "tree":
      return drawTree(host, block, app);
  }
}

/** Draw several blocks, and return what takes them away again. */
export function drawBlocks(host: HTMLElement, blocks: readonly Block[], app: App, key: string): Cleanup {
  const flames = blocks.filter((block): block is FlameBlock => block.kind === "flame");
  const cleanups = blocks.map((block, index) => {
    if (block.kind !== "flame") return drawBlock(host, block, app, `${key}.${index}`);
    if (block === flames[0]) return drawFlames(host, flames, app, key); // one at a time: the reader chooses
  });
  return () => cleanups.forEach((cleanup) => cleanup?.());
}
