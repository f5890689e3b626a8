// What is known of one node: figures, and the place in the code that opens in the editor.

import type { App } from "../app";
import { breakable } from "../blocks/words";
import { element, fill } from "../dom/element";
import { plain, quantity } from "../format/format";
import { editorAddress } from "../shell/editor";
import { within, type Tree, type TreeNode } from "./tree";

export function drawDetails(host: HTMLElement, tree: Tree, node: TreeNode, shown: TreeNode, app: App): void {
  const words = app.words.flame;
  const { unit, counts, steps } = tree.block;
  const share = (whole: TreeNode) => quantity(whole.total ? node.total / whole.total : 0, "ratio");
  const counted = `${quantity(node.calls, "count")}${steps === null ? "" : ` (${words.inSteps} ${steps})`}`;
  const rows: [string, string | Node][] = [
    [words.total, quantity(node.total, unit)],
    [words.own, quantity(node.own, unit)],
    ...(tree.root ? [[words.share, share(tree.root)] as [string, string]] : []),
    ...(shown === tree.root || !within(node, shown) ? [] : [[words.shareOfShown, share(shown)] as [string, string]]),
    ...(node.calls || counts === "samples" ? [[words[counts], counted] as [string, string]] : []),
  ];
  const place = placeOf(node, app);
  if (place) rows.push([words.code, place]);
  const kind = words.kinds[node.frame.kind] ?? node.frame.kind;
  fill(
    host,
    element("p", { class: "name" }, element("b", {}, breakable(node.name)), " ", element("span", {}, kind)),
    element("dl", {}, ...rows.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value)))),
  );
}

function placeOf(node: TreeNode, app: App): Node | null {
  const { file, line, text } = node.frame;
  if (!file) return null;
  const where = line ? `${plain(file, 400)}:${line}` : plain(file, 400);
  const address = editorAddress({ file, line }, app);
  const made = element("span", {}, address ? element("a", { href: address, title: app.words.openEditor }, breakable(where)) : element("code", {}, breakable(where)));
  if (text) made.append(" ", element("code", { class: "line" }, plain(text.trim(), 200)));
  return made;
}
