// What the mouse is over, beside it: at once what the frame says, a moment later what the tables hold about it.

import { element, fill } from "../dom/element";
import { quantity } from "../format/format";
import type { Hit } from "./paint";
import { argumentText } from "./panel";
import type { Source, SpanEvent, Window } from "./types";
import type { TimelineWords } from "./words";

const STILL = 180; // ms that the mouse rests before the tables are asked
const MOST_NAME = 300; // letters
const MOST_TOLD = 8;
const PLAIN = new Set(["pid", "thread", "index", "kind", "external_id", "device", "stream"]); // that the track says, too

export class Tip {
  readonly host = element("div", { class: "tip", role: "tooltip", hidden: true });
  private resting = 0;
  private shown: Hit | null = null;

  /** `box`: what positions of the mouse count from. */
  constructor(private readonly box: HTMLElement, private readonly source: Source, private readonly words: TimelineWords) {}

  show(hit: Hit, window: Window, x: number, y: number): void {
    this.hide();
    this.shown = hit;
    this.about(hit, window);
    this.place(x, y);
    if (hit.count === 1) this.resting = globalThis.setTimeout(() => void this.more(hit, x, y), STILL);
  }

  tell(title: string, lines: readonly string[], x: number, y: number): void {
    this.hide();
    this.write(title, lines);
    this.place(x, y);
  }

  hide(): void {
    clearTimeout(this.resting);
    this.shown = null;
    this.host.hidden = true;
  }

  private about(hit: Hit, window: Window): void {
    const { words } = this;
    const length = hit.end - hit.start;
    const share = length / (window.end - window.start);
    const category = words.categories[hit.category as keyof typeof words.categories];
    if (hit.count === 1) this.write(hit.name, [`${quantity(length, "ns")} · ${category}${share < 1 ? ` · ${quantity(share, "ratio")}` : ""}`]);
    else this.write(`${hit.count.toLocaleString("en")} ${words.events}`, [`${quantity(hit.busy, "ns")} ${words.of} ${quantity(length, "ns")}`, `${words.longest}: ${hit.name}`, words.mergedHint]);
  }

  private async more(hit: Hit, x: number, y: number): Promise<void> {
    const event = await this.source.event({ track: hit.row.track.id, lane: hit.lane, start: hit.start }, "").catch((): SpanEvent | null => null);
    if (!event || this.shown !== hit) return;
    const told = event.arguments.filter((one) => !PLAIN.has(one.name)).slice(0, MOST_TOLD);
    this.host.append(...told.map((one) => element("div", {}, `${one.name.replaceAll("_", " ")}: ${argumentText(one)}`)), ...(event.place ? [element("div", {}, event.place)] : []));
    this.place(x, y);
  }

  private write(title: string, lines: readonly string[]): void {
    fill(this.host, element("strong", {}, title.length > MOST_NAME ? `${title.slice(0, MOST_NAME)}…` : title), ...lines.map((line) => element("div", {}, line)));
    this.host.hidden = false;
  }

  private place(x: number, y: number): void {
    const [wide, high] = [this.host.offsetWidth, this.host.offsetHeight];
    const above = y + 18 + high > this.box.clientHeight + 90;
    this.host.style.left = `${Math.max(0, Math.min(x + 12, this.box.clientWidth - wide - 4))}px`;
    this.host.style.top = `${this.box.offsetTop + (above ? y - high - 10 : y + 18)}px`;
  }
}
