import type { VerdictBlock } from "../document/types";
import { element } from "../dom/element";
import { sentence } from "./words";

export function drawVerdict(host: HTMLElement, block: VerdictBlock): void {
  host.append(element("p", { class: "verdict" }, sentence(block.sentence)));
}
