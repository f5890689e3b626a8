// A call tree as the page draws it: where each node lies, what is below it, and which nodes a search finds.

import type { FlameBlock, Frame } from "../document/types";
import { plain } from "../format/format";
import type { Words } from "../words/en";

export interface TreeNode {
  readonly at: number;
  readonly frame: Frame;
  /** As it is shown. */
  readonly name: string;
  readonly parent: TreeNode | null;
  readonly children: TreeNode[];
  readonly depth: number;
  readonly own: number;
  readonly total: number;
  readonly calls: number;
  /** Where it is drawn, and how wide, in the unit of the tree: without idle frames where these are folded. */
  readonly start: number;
  width: number;
  /** Stands for the path to it in the address, in this report and in a later one of the same code. */
  readonly path: string;
}

const OURS: ReadonlySet<string> = new Set(["root", "phase", "rest", "unknown"]); // kinds of frames that have no name in the user's code
const IDLE = /^_?(?:select|wait|wait_for|poll|epoll_wait|kevent)(?: |$)/; // functions in which a thread only waits

export class Tree {
  readonly nodes: TreeNode[] = [];
  readonly root: TreeNode | undefined;
  /** Time in idle frames: of threads that wait in `select`, `poll` and the like. */
  readonly idle: number;
  /** Idle frames are left out, and others as wide as what they do. */
  readonly folds: boolean;

  /** `fold`: leave idle frames out, unless nothing else is there. */
  constructor(readonly block: FlameBlock, fold: boolean, words: Words) {
    const [root] = block.nodes;
    const working = workingTimes(block);
    this.idle = (root?.[3] ?? 0) - (working[0] ?? 0);
    this.folds = fold && this.idle > 0 && (working[0] ?? 0) > 0;
    const taken: number[] = [];
    for (const [frameAt, parentAt, own, total, calls] of block.nodes) {
      const parent = this.nodes[parentAt] ?? null;
      const frame = block.frames[frameAt]!;
      const start = parent ? parent.start + taken[parentAt]! : 0;
      const path = digest(`${parent?.path ?? ""}\0${frame.kind === "rest" ? "rest" : frame.name}`);
      const width = this.folds ? working[this.nodes.length]! : total;
      const node = { at: this.nodes.length, frame, name: OURS.has(frame.kind) ? words.say(plain(frame.name, 400)) : plain(frame.name, 400), parent, children: [], depth: parent ? parent.depth + 1 : 0, own, total, calls, start, width, path };
      this.nodes.push(node);
      taken.push(0);
      if (!parent) continue;
      parent.children.push(node);
      taken[parentAt]! += width;
    }
    this.root = this.nodes[0];
  }

  /** The node that an address means; else the root. */
  at(path: string): TreeNode | undefined {
    return (path && this.nodes.find((node) => node.path === path)) || this.root;
  }
}

/** Of each node its time without that of idle frames in it. */
function workingTimes(block: FlameBlock): number[] {
  const working = block.nodes.map(([frame, , , total]) => (isIdle(block, frame) ? 0 : total));
  const counted = block.nodes.map(() => false); // inside an idle frame: it is taken off already
  block.nodes.forEach(([frame, parent, , total], at) => {
    counted[at] = counted[parent] ?? false;
    if (counted[at]) working[at] = 0;
    if (counted[at] || !isIdle(block, frame)) return;
    counted[at] = true;
    for (let above = parent; above >= 0; above = block.nodes[above]![1]) working[above]! -= total;
  });
  return working;
}

function isIdle(block: FlameBlock, frame: number): boolean {
  const found = block.frames[frame];
  return found?.kind === "library" && IDLE.test(found.name);
}

export function within(node: TreeNode, ancestor: TreeNode): boolean {
  for (let one: TreeNode | null = node; one; one = one.parent) if (one === ancestor) return true;
  return false;
}

export interface Found {
  hits: ReadonlySet<TreeNode>;
  /** Time in them below `shown`; what is inside another hit counts once. */
  total: number;
}

/** The nodes at or below `shown` whose name and file have all the words. */
export function found(shown: TreeNode, wanted: string): Found | null {
  const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return null;
  const hits = new Set<TreeNode>();
  let total = 0;
  const look = (node: TreeNode, inside: boolean): void => {
    const text = `${node.frame.name} ${node.frame.file}`.toLowerCase();
    const hit = words.every((word) => text.includes(word));
    if (hit) hits.add(node);
    if (hit && !inside) total += node.total;
    for (const child of node.children) look(child, inside || hit);
  };
  look(shown, false);
  return { hits, total };
}

/** A short text for a long one. */
function digest(text: string): string {
  let [one, other] = [0x811c9dc5, 0x1000193];
  for (let at = 0; at < text.length; at++) {
    one = Math.imul(one ^ text.charCodeAt(at), 0x01000193) >>> 0;
    other = (Math.imul(other, 31) + text.charCodeAt(at)) >>> 0;
  }
  return one.toString(36) + other.toString(36).slice(-2);
}
