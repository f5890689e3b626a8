// The tree as boxes: the root on top, below each what it called. Elements, so that they can be focused, read and printed.

import type { App } from "../app";
import { element, fill } from "../dom/element";
import { quantity } from "../format/format";
import { within, type Found, type Tree, type TreeNode } from "./tree";

const ROW = 22; // px
const LEAST = 1 / 2000; // of the width: less than a pixel of most screens
const THIN = 1 / 300; // an edge would hide it
const DASHED = 1 / 40; // of boxes that stand for several, those that have room for a name

export interface Actions {
  zoom(node: TreeNode): void;
  /** The reader looks at a node, or (null) at none any more. */
  look(node: TreeNode | null): void;
  search(): void;
}

/** What lies at and below `shown`, and its way from the root; `hidden` nodes are too narrow to be drawn. */
export class Boxes {
  private readonly boxes = new Map<TreeNode, HTMLElement>();
  private current: TreeNode;
  readonly hidden: number;

  constructor(
    host: HTMLElement,
    private readonly tree: Tree,
    private readonly shown: TreeNode,
    private readonly app: App,
    private readonly actions: Actions,
  ) {
    this.current = shown;
    const visible = tree.nodes.filter((node) => within(shown, node) || (within(node, shown) && this.width(node) >= LEAST));
    const below = tree.nodes.filter((node) => within(node, shown) && !(tree.folds && !node.width)).length;
    this.hidden = below - visible.filter((node) => within(node, shown)).length;
    fill(host, ...visible.map((node) => this.box(node)));
    const rows = visible.reduce((most, node) => Math.max(most, node.depth), 0) + 1;
    host.style.height = `${rows * ROW}px`;
    host.onkeydown = (event) => this.key(event);
    host.onmouseleave = () => actions.look(null);
    this.enter(shown);
  }

  /** Show which nodes a search found. */
  mark(found: Found | null): void {
    for (const [node, box] of this.boxes) {
      box.classList.toggle("hit", found?.hits.has(node) ?? false);
      box.classList.toggle("miss", found !== null && !found.hits.has(node));
    }
  }

  focus(node: TreeNode = this.current): void {
    this.boxes.get(node)?.focus({ preventScroll: true });
  }

  private width(node: TreeNode): number {
    return this.shown.width ? node.width / this.shown.width : node === this.shown ? 1 : 0;
  }

  private isThin(node: TreeNode): boolean {
    return within(node, this.shown) && this.width(node) < (node.frame.kind === "rest" ? DASHED : THIN);
  }

  private box(node: TreeNode): HTMLElement {
    const whole = this.tree.root?.total ?? 0;
    const share = quantity(whole ? node.total / whole : 0, "ratio");
    const box = element("div", {
      class: `frame ${node.frame.kind}${node === this.shown ? " shown" : ""}${this.isThin(node) ? " thin" : ""}`,
      role: "treeitem",
      tabindex: "-1",
      "aria-level": node.depth + 1,
      "aria-label": `${node.name}, ${this.app.words.flame.kinds[node.frame.kind] ?? ""}, ${quantity(node.total, this.tree.block.unit)}, ${share}`,
      onclick: () => this.actions.zoom(node),
      onmouseenter: () => this.actions.look(node),
      onfocus: () => this.enter(node),
    }, this.isThin(node) ? "" : node.name);
    if (node.children.length) box.setAttribute("aria-expanded", "true");
    const around = node !== this.shown && within(this.shown, node);
    box.style.left = around ? "0" : `${(100 * (node.start - this.shown.start)) / (this.shown.width || 1)}%`;
    box.style.width = around ? "100%" : `${100 * this.width(node)}%`;
    box.style.top = `${node.depth * ROW}px`;
    this.boxes.set(node, box);
    return box;
  }

  /** One of the boxes can be reached by Tab: the one that was entered last. */
  private enter(node: TreeNode): void {
    this.boxes.get(this.current)?.setAttribute("tabindex", "-1");
    this.current = node;
    this.boxes.get(node)?.setAttribute("tabindex", "0");
    this.actions.look(node);
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const to = this.target(event.key);
    if (to) {
      this.boxes.get(to)?.focus();
      this.boxes.get(to)?.scrollIntoView({ block: "nearest" });
    } else if (event.key === "Enter" || event.key === " ") this.actions.zoom(this.current);
    else if (event.key === "Escape" && this.tree.root) this.actions.zoom(this.tree.root);
    else if (event.key === "/") this.actions.search();
    else if (!event.key.startsWith("Arrow")) return;
    event.preventDefault();
    event.stopPropagation();
  }

  private target(key: string): TreeNode | undefined {
    switch (key) {
      case "ArrowDown":
        return this.current.children.find((node) => this.boxes.has(node));
      case "ArrowUp":
        return this.current.parent ?? undefined;
      case "ArrowLeft":
      case "ArrowRight":
        return this.beside(key === "ArrowRight" ? 1 : -1);
      case "Home":
        return this.tree.root;
      default:
        return undefined;
    }
  }

  /** The next box of the same row. */
  private beside(by: 1 | -1): TreeNode | undefined {
    const row = [...this.boxes.keys()].filter((node) => node.depth === this.current.depth);
    return row[row.indexOf(this.current) + by];
  }
}
