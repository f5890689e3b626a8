// What is in the window by name, asked for when it has come to rest.

import { element, fill } from "../dom/element";
import { showSums } from "./panel";
import type { Source, Window } from "./types";
import type { TimelineWords } from "./words";

const REST = 250; // ms after which a window has come to rest

export interface Asked {
  window: Window;
  /** Of a selection, not of all that is shown. */
  measured: boolean;
  tracks: number[];
  dark: boolean;
}

export class SumPanel {
  readonly host = element("section", { class: "sums" });
  private resting = 0;

  constructor(private readonly source: Source, private readonly words: TimelineWords, private readonly asked: () => Asked) {}

  soon(): void {
    clearTimeout(this.resting);
    this.resting = window.setTimeout(() => void this.show(), REST);
  }

  end(): void {
    clearTimeout(this.resting);
  }

  private async show(): Promise<void> {
    const { window, measured, tracks, dark } = this.asked();
    try {
      const sums = await this.source.sums(window, tracks);
      if (window === this.asked().window) showSums(this.host, sums, window, measured, this.words, dark);
    } catch (error) {
      fill(this.host, element("p", { class: "note" }, `${this.words.failed}: ${String(error)}`));
    }
  }
}
