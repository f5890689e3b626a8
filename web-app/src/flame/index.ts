// Flame graphs: one of several trees as boxes, with a search, what is known of a frame, and all nodes as a table.

import type { App, Cleanup } from "../app";
import { asTable } from "../blocks/as_table";
import { sentence } from "../blocks/words";
import type { FlameBlock, TableBlock } from "../document/types";
import { element, fill } from "../dom/element";
import { plain, quantity } from "../format/format";
import type { Words } from "../words/en";
import { Boxes } from "./boxes";
import { drawDetails } from "./details";
import { FlamePlace } from "./place";
import { found, Tree, type TreeNode } from "./tree";
import { firstTree } from "./tree_of";

/** What has the focus after the page was drawn anew for another place of the same graph. */
let returning: { key: string; to: "tree" | "boxes" } | null = null;

export function drawFlames(host: HTMLElement, blocks: readonly FlameBlock[], app: App, key: string): Cleanup | void {
  const place = new FlamePlace(app.state, key);
  const number = place.tree(firstTree(blocks, app));
  const block = blocks[number] ?? blocks[0];
  if (!block) return;
  const tree = new Tree(block, !place.idle, app.words);
  const shown = tree.at(place.zoom);
  const figure = element("figure", { class: "flame", "data-source": block.source }, element("figcaption", {}, app.words.say(plain(block.title))));
  host.append(figure);
  figure.append(element("p", { class: "quiet" }, sentence(app.words.say(block.note))));
  if (!shown || !tree.root) return;
  const box = element("div", { class: "boxes", role: "tree", "aria-label": app.words.say(plain(block.title)) });
  const told = element("div", { class: "told", "aria-label": app.words.flame.frame, role: "group" });
  const search = element("input", { type: "search", placeholder: app.words.flame.find, "aria-label": app.words.flame.find, value: place.find, autocomplete: "off" });
  const status = element("span", { class: "matched", role: "status" });
  const boxes = new Boxes(box, tree, shown, app, {
    zoom: (node) => go(key, "boxes", () => (place.zoom = node === tree.root ? "" : node.path)),
    look: (node) => drawDetails(told, tree, node ?? shown, shown, app),
    search: () => search.focus(),
  });
  const find = () => {
    boxes.mark(found(shown, search.value));
    tellMatched(status, tree, shown, search.value, app);
  };
  search.addEventListener("input", () => {
    place.find = search.value;
    find();
  });
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") boxes.focus();
  });
  const controls = element("div", { class: "controls" }, chooser(blocks, block, place, app, key), search, status, zoomOut(tree, shown, place, app, key), idleSwitch(tree, place, app, key));
  const { details, clean } = asTable(() => tableOf(block, tree, app.words), app, `${key}.${number}`);
  figure.append(controls, legend(block, app), box, told, ...narrow(boxes, app), element("p", { class: "quiet hints" }, app.words.flame.hints), details);
  find();
  if (returning?.key !== key) return clean;
  if (returning.to === "boxes") boxes.focus();
  else controls.querySelector("select")?.focus();
  returning = null;
  return clean;
}

/** Change the place; the page is drawn anew, and the focus shall be where it was. */
function go(key: string, to: "tree" | "boxes", change: () => void): void {
  returning = { key, to };
  const before = location.hash;
  change();
  if (location.hash === before) returning = null;
}

function chooser(blocks: readonly FlameBlock[], chosen: FlameBlock, place: FlamePlace, app: App, key: string): HTMLElement | null {
  if (blocks.length < 2) return null;
  const select = element("select", { "aria-label": app.words.flame.tree }, ...blocks.map((block, at) => element("option", { value: at, selected: block === chosen }, app.words.say(plain(block.title)))));
  select.addEventListener("change", () => go(key, "tree", () => place.choose(Number(select.value))));
  return select;
}

function zoomOut(tree: Tree, shown: TreeNode, place: FlamePlace, app: App, key: string): HTMLElement | null {
  if (shown === tree.root) return null;
  return element("button", { type: "button", onclick: () => go(key, "boxes", () => (place.zoom = "")) }, app.words.flame.zoomOut);
}

/** How much is folded, and the way to see it. */
function idleSwitch(tree: Tree, place: FlamePlace, app: App, key: string): HTMLElement | null {
  if (!tree.idle || (!tree.folds && !place.idle)) return null;
  const words = app.words.flame;
  const told = `${words.idle}: ${quantity(tree.idle, tree.block.unit)} (${quantity(tree.root?.total ? tree.idle / tree.root.total : 0, "ratio")})`;
  const change = () => go(key, "boxes", () => (place.idle = !place.idle));
  return element("span", { class: "idle" }, `${told} `, element("button", { type: "button", class: "small", onclick: change }, place.idle ? words.foldIdle : words.showIdle));
}

function tellMatched(host: HTMLElement, tree: Tree, shown: TreeNode, wanted: string, app: App): void {
  const words = app.words.flame;
  const matched = found(shown, wanted);
  if (!matched) return fill(host);
  const share = quantity(shown.total ? matched.total / shown.total : 0, "ratio");
  const count = `${quantity(matched.hits.size, "count")} ${matched.hits.size === 1 ? words.frame : words.frames}`;
  fill(host, `${words.matched}: ${quantity(matched.total, tree.block.unit)}, ${share} ${words.ofShown}, ${count}`);
}

function legend(block: FlameBlock, app: App): HTMLElement {
  const order = Object.keys(app.words.flame.kinds);
  const kinds = [...new Set(block.frames.map((frame) => frame.kind))].sort((one, other) => order.indexOf(one) - order.indexOf(other));
  return element("ul", { class: "legend" }, ...kinds.map((kind) => element("li", { class: kind }, element("i", { class: `frame ${kind}` }), app.words.flame.kinds[kind] ?? kind)));
}

function narrow(boxes: Boxes, app: App): Node[] {
  if (!boxes.hidden) return [];
  return [element("p", { class: "quiet" }, `${app.words.flame.tooNarrow} ${quantity(boxes.hidden, "count")}`)];
}

function tableOf(block: FlameBlock, tree: Tree, words: Words): TableBlock {
  const whole = tree.root?.total ?? 0;
  const columns = [
    { name: "depth", unit: null },
    { name: "name", unit: null },
    { name: "kind", unit: null },
    { name: "total", unit: block.unit },
    { name: "self", unit: block.unit },
    { name: "share", unit: "ratio" as const, decimal: true },
    { name: block.counts, unit: "count" as const },
    { name: "file", unit: null },
    { name: "line", unit: null },
  ];
  const rows = tree.nodes.map((node) => [
    node.depth, node.name, words.catalog ? (words.flame.kinds[node.frame.kind] ?? node.frame.kind) : node.frame.kind, node.total, node.own, whole ? node.total / whole : null, node.calls, node.frame.file || null, node.frame.line || null,
  ]);
  return { kind: "table", title: "", columns, rows, source: block.source };
}
