// The timeline from the excerpt in a file: one window of the run, every span of it.

import { cut, extremes, type Lane } from "./cut";
import { sums } from "./aggregates";
import type { Argument, Category, Found, Frame, LaneFrame, Link, Ref, Source, SpanEvent, SpanFrame, Sums, Track, Tracks, ValueFrame, Way, Window } from "./types";

interface Packed {
  after?: number[];
  length?: number[];
  name?: number[];
  told?: number[];
  correlation?: number[];
  /** Written where false. */
  nests?: boolean;
}

export interface Excerpt extends Tracks {
  path: string;
  window: [number, number];
  whole: boolean;
  /** A typical step; null: there are no steps. */
  typical: [number, number] | null;
  names: [string, Category][];
  told: Record<string, string | number | boolean>[];
  meanings: Record<string, [string | null, string]>;
  spans: Record<string, Packed[]>;
  values: Record<string, [(number | null)[], (number | null)[]]>;
}

interface Held extends Lane {
  told: number[];
  correlation: number[];
}

interface At {
  track: number;
  lane: number;
  place: number;
}

const AROUND_POINT = 1e6; // ns before and after a moment outside of steps
const DERIVED: ReadonlySet<string> = new Set(["path", "gaps"]); // their names are those of other tracks
const ORDER = ["kernel", "memcpy", "memset", "runtime", "driver"];

export class FileSource implements Source {
  readonly held: Window | null;
  readonly path: string;
  private readonly lanes: Held[][];

  constructor(private readonly data: Excerpt) {
    this.path = data.path;
    this.held = data.whole ? null : { start: data.window[0], end: data.window[1] };
    this.lanes = data.tracks.map((track) => (data.spans[track.id] ?? []).map(opened));
  }

  tracks(): Promise<Tracks> {
    return Promise.resolve(this.data);
  }

  frame(window: Window, width: number, tracks: readonly number[]): Promise<Frame> {
    const [start, end] = [Math.floor(window.start), Math.ceil(window.end)];
    const drawn = tracks.map((number) => this.drawn(number, start, end, width));
    return Promise.resolve({ start, end, width, names: this.data.names, tracks: drawn });
  }

  find(text: string, from: Ref | number, backwards: boolean): Promise<Found> {
    const wanted = text.toLowerCase();
    const matches = this.data.names.map(([name]) => name.toLowerCase().includes(wanted));
    const hits: At[] = this.all().filter((at) => matches[this.lane(at).name[at.place]!] && !DERIVED.has(this.data.tracks[at.track]!.kind));
    const counts = new Map<string, number>();
    for (const at of hits) counts.set(this.nameOf(at), (counts.get(this.nameOf(at)) ?? 0) + 1);
    const names = [...counts].sort((one, other) => other[1] - one[1]).slice(0, 20);
    if (!hits.length) return Promise.resolve({ total: 0, distinct: 0, names, position: 0, hit: null, end: null, name: "" });
    const index = this.nextHit(hits, from, backwards);
    const hit = hits[index]!;
    const ref = this.refOf(hit);
    return Promise.resolve({ total: hits.length, distinct: counts.size, names, position: index + 1, hit: ref, end: this.lane(hit).end[hit.place]!, name: this.nameOf(hit) });
  }

  event(ref: Ref, way: Way): Promise<SpanEvent> {
    const at = this.moved(this.at(ref), way);
    const lane = this.lane(at);
    const told = this.data.told[lane.told[at.place] ?? -1] ?? {};
    const known: Argument[] = Object.entries(told).map(([name, value]) => {
      const [unit, meaning] = this.data.meanings[name] ?? [null, ""];
      return { name, value, unit, meaning };
    });
    const [name, category] = this.data.names[lane.name[at.place]!]!;
    const links = [...this.linked(at, told), ...this.around(at)];
    return Promise.resolve({ ref: this.refOf(at), name, category, end: lane.end[at.place]!, place: told["file"] ? `${told["file"]}:${told["line"] ?? ""}` : null, arguments: known, links });
  }

  sums(window: Window, tracks: readonly number[]): Promise<Sums> {
    return Promise.resolve(sums(tracks.map((number) => ({ kind: this.data.tracks[number]!.kind, lanes: this.lanes[number] ?? [] })), this.data.names, window));
  }

  /** The window of steps, where the file holds all of it; without numbers that of a typical step. */
  steps(wanted: { first?: number; last?: number; rank: number | null }): Window | null {
    const track = this.data.tracks.findIndex((one) => one.kind === "steps" && (wanted.rank === null || one.rank === wanted.rank));
    const { first, last = first } = wanted;
    const found: Window[] = [];
    if (first === undefined || last === undefined) {
      if (this.data.typical) found.push({ start: this.data.typical[0], end: this.data.typical[1] });
    } else {
      for (const lane of this.lanes[track] ?? []) {
        lane.start.forEach((start, place) => {
          const number = Number(/ (\d+)$/.exec(this.data.names[lane.name[place]!]![0])?.[1]);
          if (number >= first && number <= last) found.push({ start, end: lane.end[place]! });
        });
      }
    }
    if (!found.length) return null;
    const window = { start: Math.min(...found.map((one) => one.start)), end: Math.max(...found.map((one) => one.end)) };
    return !this.held || (window.start >= this.held.start && window.end <= this.held.end) ? window : null;
  }

  /** Times since a moment of the trace's clock, where the file holds them; without an end the step around it. */
  moment(began: string, from: number, to: number | null): Window | null {
    const shift = Number(BigInt(began) - BigInt(this.data.origin));
    const window = { start: from + shift, end: (to ?? from) + shift };
    if (this.held && (window.start < this.held.start || window.end > this.held.end)) return null;
    if (to !== null) return window;
    for (const lane of this.data.tracks.flatMap((track, number) => (track.kind === "steps" ? (this.lanes[number] ?? []) : []))) {
      const place = lane.start.findLastIndex((start) => start <= window.start);
      if (place >= 0 && window.start < lane.end[place]!) return { start: lane.start[place]!, end: lane.end[place]! };
    }
    return { start: window.start - AROUND_POINT, end: window.end + AROUND_POINT };
  }

  private drawn(number: number, start: number, end: number, width: number): SpanFrame | ValueFrame {
    const track = this.data.tracks[number] as Track;
    const values = this.data.values[track.id];
    if (!track.lanes) {
      const [low, high] = values ?? [[], []];
      return { id: track.id, low: extremes(low, this.data.window, start, end, width, Math.min), high: extremes(high, this.data.window, start, end, width, Math.max) };
    }
    const lanes = this.lanes[number]!.map((lane, place) => cut(lane, place, start, end, width)).filter((lane): lane is LaneFrame => lane !== null);
    const drawn = lanes.reduce((sum, lane) => sum + (lane.start?.length ?? 0), 0);
    const merged = lanes.reduce((sum, lane) => sum + (lane.count?.reduce((one, other) => one + other, 0) ?? 0), 0);
    return { id: track.id, drawn, merged, lanes };
  }

  private all(): At[] {
    const found: At[] = [];
    this.lanes.forEach((lanes, track) => lanes.forEach((lane, number) => lane.start.forEach((_, place) => found.push({ track, lane: number, place }))));
    return found.sort((one, other) => this.compare(one, other));
  }

  private compare(one: At, other: At): number {
    return this.lane(one).start[one.place]! - this.lane(other).start[other.place]! || one.track - other.track || one.lane - other.lane || one.place - other.place;
  }

  private nextHit(hits: readonly At[], from: Ref | number, backwards: boolean): number {
    const start = typeof from === "number" ? from : null;
    const at = start === null ? this.at(from as Ref) : null;
    const place = (hit: At) => (at ? this.compare(hit, at) : this.lane(hit).start[hit.place]! - start!);
    if (backwards) {
      const found = hits.findLastIndex((hit) => place(hit) < 0);
      return found < 0 ? hits.length - 1 : found;
    }
    const found = hits.findIndex((hit) => (at ? place(hit) > 0 : place(hit) >= 0));
    return found < 0 ? 0 : found;
  }

  private at(ref: Ref): At {
    const track = this.data.tracks.findIndex((one) => one.id === ref.track);
    const place = this.lanes[track]?.[ref.lane]?.start.lastIndexOf(ref.start) ?? -1;
    if (place < 0) throw new Error("this part of the run is not in the file");
    return { track, lane: ref.lane, place };
  }

  private moved(at: At, way: Way): At {
    const [lane, lanes] = [this.lane(at), this.lanes[at.track]!];
    if (way === "next") return { ...at, place: Math.min(at.place + 1, lane.start.length - 1) };
    if (way === "previous") return { ...at, place: Math.max(at.place - 1, 0) };
    if (way === "out") return this.holders(at).at(-1) ?? at;
    const inner = lanes[at.lane + 1];
    const place = way === "in" ? (inner?.start.findIndex((start) => start >= lane.start[at.place]!) ?? -1) : -1;
    return place >= 0 && inner!.end[place]! <= lane.end[at.place]! ? { ...at, lane: at.lane + 1, place } : at;
  }

  private holders(at: At): At[] {
    const [start, end] = [this.lane(at).start[at.place]!, this.lane(at).end[at.place]!];
    return this.lanes[at.track]!.slice(0, at.lane).flatMap((lane, number) => {
      const place = lane.start.findLastIndex((begin) => begin <= start);
      return place >= 0 && lane.end[place]! >= end ? [{ track: at.track, lane: number, place }] : [];
    });
  }

  private around(at: At): Link[] {
    return this.holders(at).map((holder) => this.linkTo("in", holder));
  }

  /** The call that launched work, or the work that a call launched: equal correlation in the same rank. */
  private linked(at: At, told: Record<string, unknown>): Link[] {
    const id = this.lane(at).correlation[at.place];
    if (!id || !ORDER.includes(String(told["kind"]))) return [];
    const here = this.data.tracks[at.track]!;
    const wanted = here.kind === "stream" ? "host" : "stream";
    const same = this.all().filter((other) => this.data.tracks[other.track]!.kind === wanted && this.data.tracks[other.track]!.rank === here.rank && this.lane(other).correlation[other.place] === id);
    return same.map((other) => this.linkTo(wanted === "host" ? "launched by" : "launches", other));
  }

  private linkTo(what: string, at: At): Link {
    return { what, name: this.nameOf(at), ref: this.refOf(at), end: this.lane(at).end[at.place]! };
  }

  private lane(at: At): Held {
    return this.lanes[at.track]![at.lane]!;
  }

  private nameOf(at: At): string {
    return this.data.names[this.lane(at).name[at.place]!]![0];
  }

  private refOf(at: At): Ref {
    return { track: this.data.tracks[at.track]!.id, lane: at.lane, start: this.lane(at).start[at.place]! };
  }
}

function opened(packed: Packed): Held {
  let at = 0;
  const start = (packed.after ?? []).map((after) => (at += after));
  const end = start.map((time, place) => time + packed.length![place]!);
  return { start, end, name: packed.name ?? [], told: packed.told ?? [], correlation: packed.correlation ?? [], nests: packed.nests ?? true };
}
