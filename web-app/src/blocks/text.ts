import type { TextBlock } from "../document/types";
import { element } from "../dom/element";
import { sentence } from "./words";

export function drawText(host: HTMLElement, block: TextBlock): void {
  host.append(element("p", {}, sentence(block.text)));
}
