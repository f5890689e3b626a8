// The flame graph in which a finding is seen: that of the workers for what is in them, with its place searched for.

import type { App } from "../app";
import type { Finding, FlameBlock, Place } from "../document/types";

/** Whether a finding is about work of loader processes. */
export function isLoading(finding: Finding): boolean {
  return (finding.gain?.pool ?? finding.cause.replace("data-reading", "data-wait")) === "data-wait";
}

/** An address of `#…` that opens the flame graph there; empty where there is none. */
export function flameAddress(finding: Finding, app: App): string {
  for (const section of app.document.sections) {
    const flames = section.blocks.filter((block): block is FlameBlock => block.kind === "flame");
    if (!flames.length) continue;
    const [tree, place] = treeOf(finding, flames);
    const find = place ? `${place.file.split(/[\\/]/).pop()}:${place.line}` : "";
    return app.state.address({ view: section.name, finding: "", [`${section.name}.tree`]: String(tree), [`${section.name}.zoom`]: "", [`${section.name}.find`]: find });
  }
  return "";
}

/** The tree to begin with: that in which the first finding is. */
export function firstTree(flames: readonly FlameBlock[], app: App): number {
  const [first] = app.document.schema === "stepscope-report" ? app.document.findings : [];
  return first ? treeOf(first, flames)[0] : 0;
}

/** The position of the tree that spends the largest share at a place of the finding, and the place it is found by. */
function treeOf(finding: Finding, flames: readonly FlameBlock[]): [number, Place | null] {
  const workers = flames.map((flame) => flame.source.replaceAll("-", "_") === "loader_line_tree");
  const loading = isLoading(finding) && workers.includes(true);
  for (const place of finding.where) {
    const shares = flames.map((flame, at) => (loading && !workers[at] ? 0 : shareAt(flame, place)));
    const most = Math.max(...shares);
    if (most > 0) return [shares.indexOf(most), place];
  }
  return [loading ? workers.indexOf(true) : 0, null];
}

/** The share of a tree that is in frames of a line; what is inside another such frame counts once. */
function shareAt(flame: FlameBlock, place: Place): number {
  const whole = flame.nodes[0]?.[3] ?? 0;
  const inside: boolean[] = [];
  let total = 0;
  flame.nodes.forEach(([frame, parent, , time], at) => {
    const one = flame.frames[frame];
    const is = one !== undefined && one.line === place.line && one.file === place.file;
    inside[at] = is || (inside[parent] ?? false);
    if (is && !inside[parent]) total += time;
  });
  return whole ? total / whole : 0;
}
