// A timeline on the page: what it shows, and what it does when it is told.

import "./timeline.css";
import { element, fill } from "../dom/element";
import { quantity } from "../format/format";
import { around } from "./around";
import { Frames, type Wanted } from "./frames";
import { AXIS, MAP, paintHead } from "./head";
import { listenTo, type Actions } from "./input";
import { layout, laneTop, LANE, rowAt, type Layout, type TrackRow } from "./layout";
import { CATEGORIES, themeOf, type Theme } from "./palette";
import { firstDrawn, hitAt, starts } from "./hit";
import { paint, type Hit, type Picture } from "./paint";
import { showDetails, swatch } from "./panel";
import { brought, kept, moment, Scale, withMargin, zoomed } from "./scale";
import { searchBox, type SearchBox } from "./search";
import { SumPanel } from "./sum_panel";
import { listTracks } from "./told";
import { Tip } from "./tip";
import type { Found, Ref, Source, SpanEvent, Tracks, Way, Window } from "./types";
import type { TimelineWords } from "./words";

export interface Options {
  /** The window to begin with; without it all of the run. */
  window?: Window | undefined;
  /** What the window is called, such as the finding that it shows. */
  name?: string | undefined;
  /** Categories of spans that stand out. */
  lit?: readonly string[] | undefined;
  /** A text of the report in the language of the page. */
  say?(text: string): string;
  /** Told after the window has come to rest. */
  onWindow?(window: Window): void;
}

const OPEN_GROUPS = 12; // of a run with more processes the others are folded at first
const NARROW = 560; // pixels: with less the names of tracks stand above them
const LOWEST = 260; // pixels of the tracks, however low the screen
const BELOW = 44; // pixels for the hints below them
const CLOSER = 0.4; // of the window is left by a double click
const REST = 250; // ms after which a window has come to rest

export class Drawn implements Actions {
  private readonly map = element("canvas", { class: "map", "aria-hidden": "true" });
  private readonly canvas: HTMLCanvasElement;
  private readonly spacer = element("div", { class: "spacer" });
  private readonly box: HTMLElement;
  private readonly tip: Tip;
  private readonly live = element("p", { class: "offscreen", "aria-live": "polite" });
  private readonly told = element("ul", { class: "offscreen" });
  private readonly details: HTMLElement;
  private readonly sums: SumPanel;
  private readonly root: HTMLElement;
  private readonly frames: Frames;
  private readonly finder: SearchBox;
  private readonly whole: Window;
  private readonly observer: ResizeObserver;
  private readonly retheme = () => this.themed();
  private readonly leaving = () => this.leave(); // what the mouse is over has moved away
  private readonly folded: Set<string>;
  private rows: Layout;
  private window: Window;
  private theme: Theme;
  private selected: { ref: Ref; end: number; event: SpanEvent | null } | null = null;
  private hovered: Hit | null = null;
  private measured: Window | null = null;
  private marked = "";
  private lit: ReadonlySet<string>;
  private drawing = 0;
  private asked = 0;
  private resting = 0;

  constructor(host: HTMLElement, private readonly source: Source, private readonly data: Tracks, private readonly options: Options, private readonly words: TimelineWords) {
    this.canvas = element("canvas", { class: "tracks", tabindex: 0, role: "application", "aria-label": words.label });
    this.box = element("div", { class: "tracks-box" }, this.spacer, this.canvas);
    this.tip = new Tip(this.box, source, words);
    this.details = element("section", { class: "details", "aria-label": words.details }, element("p", { class: "quiet" }, words.details));
    this.lit = new Set(options.lit ?? []);
    this.whole = source.held ?? { start: 0, end: Math.max(data.end, 1) };
    this.window = kept(options.window ?? this.whole, this.whole);
    const groups = [...new Set(data.tracks.map((track) => track.group))];
    this.folded = new Set(groups.slice(OPEN_GROUPS));
    this.rows = this.arranged();
    this.finder = searchBox(source, words, () => this.selected?.ref ?? this.window.start, (found) => this.found(found), (text) => this.mark(text));
    this.sums = new SumPanel(source, words, () => ({ window: this.measured ?? this.window, measured: this.measured !== null, tracks: this.rows.rows.flatMap((row) => (row.kind === "track" && row.track.lanes ? [row.number] : [])), dark: this.theme.dark }));
    this.root = element("div", { class: "timeline" }, ...around(source, data, options.name ?? "", this.lit, this.finder.host, words, this), element("div", { class: "beside" }, element("div", { class: "drawing" }, this.map, this.box, element("p", { class: "quiet hints" }, words.help), this.tip.host), this.details), this.live, this.told, this.sums.host);
    host.append(this.root);
    this.theme = themeOf(this.root);
    this.swatches();
    this.frames = new Frames(source, () => this.wanted(), (error) => this.came(error));
    listenTo(this.canvas, this.map, this);
    this.box.addEventListener("scroll", () => this.changed());
    document.addEventListener("scroll", this.leaving, { capture: true });
    window.addEventListener("stepscope-theme", this.retheme);
    this.observer = new ResizeObserver(() => this.sized());
    this.observer.observe(this.box);
    this.sized();
    this.sums.soon();
  }

  show(window: Window): void {
    this.leave();
    this.window = kept(window, this.whole);
    this.changed();
    clearTimeout(this.resting);
    this.resting = globalThis.setTimeout(() => {
      this.root.dataset["window"] = `${Math.floor(this.window.start)},${Math.ceil(this.window.end)}`;
      this.options.onWindow?.(this.window);
    }, REST);
    if (!this.measured) this.sums.soon();
  }

  end(): void {
    this.frames.end();
    this.observer.disconnect();
    window.removeEventListener("stepscope-theme", this.retheme);
    document.removeEventListener("scroll", this.leaving, { capture: true });
    cancelAnimationFrame(this.drawing);
    clearTimeout(this.resting);
    this.sums.end();
    this.root.remove();
  }

  // What the mouse and the keys do.

  pan(pixels: number): void {
    const by = pixels * this.scale().perPixel;
    this.show({ start: this.window.start + by, end: this.window.end + by });
  }

  scroll(pixels: number): boolean {
    const before = this.box.scrollTop;
    this.box.scrollTop += pixels;
    return this.box.scrollTop !== before;
  }

  zoom(by: number, x?: number): void {
    const scale = this.scale();
    const middle = this.selected && this.selected.ref.start < this.window.end && this.selected.end > this.window.start ? Math.max(this.window.start, Math.min(this.window.end, (this.selected.ref.start + this.selected.end) / 2)) : (this.window.start + this.window.end) / 2;
    this.show(zoomed(this.window, x === undefined || x < scale.left ? middle : scale.time(x), by));
  }

  measure(from: number, to: number): void {
    const scale = this.scale();
    const times = [scale.time(Math.max(from, scale.left)), scale.time(Math.max(to, scale.left))].sort((one, other) => one - other) as [number, number];
    this.measured = { start: times[0], end: Math.max(times[1], times[0] + 1) };
    this.changed();
    this.sums.soon();
  }

  click(x: number, y: number): void {
    const row = rowAt(this.rows, y + this.box.scrollTop);
    if (row?.kind === "group" || (row?.kind === "track" && (x < this.scale().left || y + this.box.scrollTop < row.top + row.head))) return this.fold(row.kind === "group" ? row.name : row.track.id);
    const hit = hitAt(this.picture(), x, y + this.box.scrollTop);
    if (!hit) return this.clear();
    if (hit.count > 1) return this.show(kept({ start: hit.start - (hit.end - hit.start), end: hit.end + (hit.end - hit.start) }, this.whole));
    this.select({ track: hit.row.track.id, lane: hit.lane, start: hit.start }, hit.end);
  }

  /** On a span: it fills the picture; elsewhere: closer to where the mouse is. */
  double(x: number, y: number): void {
    const hit = hitAt(this.picture(), x, y + this.box.scrollTop);
    if (x < this.scale().left) return;
    if (!hit) return this.zoom(CLOSER, x);
    this.show(withMargin(hit.start, hit.end));
  }

  /** All spans look alike again. */
  unlight(): void {
    this.lit = new Set();
    this.draw();
  }

  hover(x: number, y: number): void {
    const hit = hitAt(this.picture(), x, y + this.box.scrollTop);
    const row = rowAt(this.rows, y + this.box.scrollTop);
    this.canvas.style.cursor = hit || row?.kind === "group" || x < this.scale().left ? "pointer" : "default";
    if (!hit) {
      this.leave();
      if (x < this.scale().left && row?.kind === "track") this.tip.tell(row.track.name, [row.track.group], x, y);
      return;
    }
    if (this.hovered && this.hovered.row === hit.row && this.hovered.lane === hit.lane && this.hovered.start === hit.start) return;
    this.hovered = hit;
    this.tip.show(hit, this.window, x, y);
    this.draw();
  }

  leave(): void {
    this.tip.hide();
    if (this.hovered) {
      this.hovered = null;
      this.draw();
    }
  }

  jump(x: number): void {
    const time = new Scale(this.whole, this.left(), this.width() - this.left()).time(x);
    const half = (this.window.end - this.window.start) / 2;
    this.show({ start: time - half, end: time + half });
  }

  fit(): void {
    if (this.measured) return this.show(this.measured);
    if (!this.selected) return this.all();
    const { ref, end } = this.selected;
    this.show(withMargin(ref.start, end));
  }

  all(): void {
    this.show(this.whole);
  }

  measureSelected(): void {
    if (!this.selected) return;
    this.measured = { start: this.selected.ref.start, end: Math.max(this.selected.end, this.selected.ref.start + 1) };
    this.changed();
    this.sums.soon();
  }

  move(way: Way): void {
    const from = this.selected?.ref ?? firstDrawn(this.rows, this.frames.all, this.window);
    if (from) void this.choose(from, this.selected ? way : "", true);
  }

  clear(): void {
    const had = this.measured;
    this.selected = this.measured = null;
    this.asked++;
    fill(this.details, element("p", { class: "quiet" }, this.words.details));
    this.changed();
    if (had) this.sums.soon();
  }

  search(): void {
    this.finder.focus();
  }

  // What there is around the tracks.

  private fold(name: string): void {
    if (this.folded.has(name)) this.folded.delete(name);
    else this.folded.add(name);
    this.sized();
  }

  private mark(text: string): void {
    this.marked = text;
    this.draw();
  }

  private found(found: Found): void {
    if (!found.hit || found.end === null) return;
    this.select(found.hit, found.end, true);
  }

  // A span that is looked at.

  private select(ref: Ref, end: number, bring = false): void {
    this.selected = { ref, end, event: null };
    if (bring) this.bring(ref, end);
    this.draw();
    void this.choose(ref, "", false);
  }

  private async choose(ref: Ref, way: Way, bring: boolean): Promise<void> {
    const mine = ++this.asked; // what was chosen last is shown, whichever answer comes last
    try {
      const event = await this.source.event(ref, way);
      if (mine !== this.asked) return;
      this.selected = { ref: event.ref, end: event.end, event };
      if (bring) this.bring(event.ref, event.end);
      this.draw();
      showDetails(this.details, event, this.words, this.theme.dark, (link) => this.select(link.ref, link.end, true), () => this.fit(), this.options.say);
      const track = this.data.tracks.find((one) => one.id === event.ref.track);
      this.live.textContent = `${event.name}, ${this.words.categories[event.category]}, ${quantity(event.end - event.ref.start, "ns")}, ${this.words.at} ${moment(event.ref.start, 1)}, ${track?.name ?? ""}`;
    } catch (error) {
      if (mine === this.asked) fill(this.details, element("p", { class: "note" }, `${this.words.failed}: ${String(error)}`));
    }
  }

  /** Move the window and the tracks so that a span is seen. */
  private bring(ref: Ref, end: number): void {
    const track = this.data.tracks.find((one) => one.id === ref.track);
    if (!track) return;
    if (this.folded.delete(track.group) || (ref.lane > 0 && this.folded.delete(track.id))) this.sized();
    const row = this.rows.rows.find((one): one is TrackRow => one.kind === "track" && one.track.id === ref.track);
    if (row) {
      const top = laneTop(row, ref.lane);
      if (top < this.box.scrollTop) this.box.scrollTop = top - 40;
      else if (top + LANE > this.box.scrollTop + this.box.clientHeight) this.box.scrollTop = top - this.box.clientHeight + 60;
    }
    const window = brought(this.window, { start: ref.start, end }, this.scale().perPixel);
    if (window) this.show(window);
  }

  // Drawing.

  private width(): number {
    return this.box.clientWidth;
  }

  private left(): number {
    const width = this.width();
    return width < NARROW ? 8 : width < 900 ? 170 : 230;
  }

  private scale(): Scale {
    return new Scale(this.window, this.left(), Math.max(this.width() - this.left(), 10));
  }

  private wanted(): Wanted | null {
    const scale = this.scale();
    const [top, height] = [this.box.scrollTop, this.box.clientHeight];
    const tracks = this.rows.rows.filter((row): row is TrackRow => row.kind === "track");
    const near = tracks.filter((row) => row.top + row.height > top - height && row.top < top + 2 * height).map((row) => row.number);
    const most = new Set(near);
    const open = tracks.length <= 60 ? tracks.map((row) => row.number) : [...most];
    const window = { start: Math.floor(this.window.start), end: Math.ceil(this.window.end) };
    return near.length ? { window, width: Math.round(scale.width), tracks: near, whole: this.whole, open } : null;
  }

  private picture(): Picture {
    return {
      layout: this.rows, scale: this.scale(), frames: this.frames.all, theme: this.theme, words: this.words, selected: this.selected, hovered: this.hovered,
      marked: this.marked, lit: this.lit, measured: this.measured, held: this.source.held, steps: starts(this.frames.all.at(-1), this.data.tracks.find((track) => track.kind === "steps")?.id),
    };
  }

  private changed(): void {
    this.draw();
    this.frames.ask();
  }

  private draw(): void {
    this.drawing ||= requestAnimationFrame(() => {
      this.drawing = 0;
      const ratio = window.devicePixelRatio || 1;
      const [width, height] = [this.width(), this.box.clientHeight];
      const context = this.canvas.getContext("2d", { alpha: false });
      const above = this.map.getContext("2d", { alpha: false });
      if (!context || !above) return;
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      above.setTransform(ratio, 0, 0, ratio, 0, 0);
      paint(context, this.picture(), this.box.scrollTop, width, height);
      const whole = new Scale(this.whole, this.left(), Math.max(width - this.left(), 10));
      paintHead(above, { scale: this.scale(), whole, overview: this.frames.overview, theme: this.theme, measured: this.measured, held: this.source.held }, width);
    });
  }

  private arranged(): Layout {
    return layout(this.data.tracks, this.folded, this.width() < NARROW);
  }

  private sized(): void {
    this.rows = this.arranged();
    const ratio = window.devicePixelRatio || 1;
    const height = Math.min(this.rows.height + 2, this.room());
    this.details.style.maxHeight = `${height + MAP + AXIS}px`;
    this.box.style.height = `${height}px`;
    this.spacer.style.height = `${this.rows.height}px`;
    const width = this.width();
    for (const [canvas, high, edge] of [[this.canvas, height, 0], [this.map, MAP + AXIS, 1]] as const) {
      canvas.style.width = `${width + 2 * edge}px`;
      canvas.style.height = `${high + edge}px`;
      [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(high * ratio)];
    }
    this.changed();
  }

  /** How high the tracks may be, so that they and their hints are seen without scrolling the page. */
  private room(): number {
    const scrolled = this.root.closest("main")?.scrollTop ?? 0;
    const top = this.box.getBoundingClientRect().top + scrolled;
    return Math.max(LOWEST, Math.round(window.innerHeight - top - BELOW));
  }

  private themed(): void {
    this.theme = themeOf(this.root);
    this.swatches();
    this.draw();
    this.sums.soon();
  }

  private swatches(): void {
    for (const item of this.root.querySelectorAll<HTMLElement>("[data-category]")) item.querySelector("i")?.replaceWith(swatch(item.dataset["category"] as (typeof CATEGORIES)[number], this.theme.dark));
  }

  /** A frame came. What the tracks show is told in words, too. */
  private came(error?: unknown): void {
    this.draw();
    if (error !== undefined) {
      this.live.textContent = `${this.words.failed}: ${String(error)}`;
      return;
    }
    const frame = this.frames.all.at(-1);
    const rows = this.rows.rows.filter((row): row is TrackRow => row.kind === "track");
    if (!frame || !this.frames.settled) return;
    listTracks(this.told, rows, frame, this.window, this.words);
    this.root.dataset["drawn"] = `${frame.start},${frame.end},${frame.width}`;
  }
}
