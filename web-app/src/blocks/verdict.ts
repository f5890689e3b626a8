import type { App } from "../app";
import type { VerdictBlock } from "../document/types";
import { element } from "../dom/element";
import { sentence } from "./words";

export function drawVerdict(host: HTMLElement, block: VerdictBlock, app: App): void {
  host.append(element("p", { class: "verdict" }, sentence(app.words.say(block.sentence))));
}
