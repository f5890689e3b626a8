// Asking for frames: one question at a time, of the newest window; the last answers stay until better ones come.

import type { Frame, Source, Window } from "./types";

const PATIENCE = 25; // ms that a movement may go on before a frame is asked for
const AROUND = 3; // times the window that is asked for next, so that moving shows no blank
const MOST_PIXELS = 4096;

export interface Wanted {
  window: Window;
  width: number;
  tracks: number[];
  /** All there is, of which a coarse frame is kept. */
  whole: Window;
  /** Tracks that are open, seen or not. */
  open: number[];
}

export class Frames {
  private exact: Frame | null = null;
  private wide: Frame | null = null;
  private coarse: Frame | null = null;
  private exactKey = "";
  private wideKey = "";
  private coarseKey = "";
  private timer = 0;
  private asking = false;
  private gone = false;

  constructor(private readonly source: Source, private readonly wanted: () => Wanted | null, private readonly came: (error?: unknown) => void) {}

  /** From the coarsest to the newest. */
  get all(): Frame[] {
    return [this.coarse, this.wide, this.exact].filter((frame): frame is Frame => frame !== null);
  }

  get overview(): Frame | null {
    return this.coarse;
  }

  /** Whether what is shown is what was asked for last. */
  get settled(): boolean {
    const wanted = this.wanted();
    return wanted !== null && this.exactKey === keyOf(wanted.window, wanted.width, wanted.tracks);
  }

  ask(): void {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => void this.work(), PATIENCE);
  }

  end(): void {
    this.gone = true;
    clearTimeout(this.timer);
  }

  private async work(): Promise<void> {
    if (this.asking || this.gone) return;
    this.asking = true;
    try {
      while (!this.gone && (await this.one())) this.came();
    } catch (error) {
      this.came(error);
    } finally {
      this.asking = false;
    }
  }

  /** Ask for what is missing most; false if nothing is. */
  private async one(): Promise<boolean> {
    const wanted = this.wanted();
    if (!wanted || wanted.width < 1) return false;
    const exact = keyOf(wanted.window, wanted.width, wanted.tracks);
    if (exact !== this.exactKey) {
      const frame = await this.source.frame(wanted.window, wanted.width, wanted.tracks);
      [this.exact, this.exactKey] = [frame, exact];
      return true;
    }
    const coarse = keyOf(wanted.whole, wanted.width, wanted.open);
    if (coarse !== this.coarseKey) {
      const frame = await this.source.frame(wanted.whole, wanted.width, wanted.open);
      [this.coarse, this.coarseKey] = [frame, coarse];
      return true;
    }
    const around = widened(wanted.window, wanted.whole);
    const width = Math.min(MOST_PIXELS, Math.round((wanted.width * (around.end - around.start)) / (wanted.window.end - wanted.window.start)));
    const wide = keyOf(around, width, wanted.tracks);
    if (wide === this.wideKey) return false;
    const frame = await this.source.frame(around, Math.max(width, 1), wanted.tracks);
    [this.wide, this.wideKey] = [frame, wide];
    return true;
  }
}

function widened(window: Window, whole: Window): Window {
  const more = ((window.end - window.start) * (AROUND - 1)) / 2;
  return { start: Math.max(whole.start, window.start - more), end: Math.min(whole.end, window.end + more) };
}

function keyOf(window: Window, width: number, tracks: readonly number[]): string {
  return `${Math.floor(window.start)} ${Math.ceil(window.end)} ${width} ${tracks.join(",")}`;
}
