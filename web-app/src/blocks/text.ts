import type { App } from "../app";
import type { TextBlock } from "../document/types";
import { element } from "../dom/element";
import { sentence } from "./words";

export function drawText(host: HTMLElement, block: TextBlock, app: App): void {
  host.append(element("p", {}, sentence(app.words.say(block.text))));
}
