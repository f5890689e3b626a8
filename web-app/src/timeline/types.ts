// What the timeline is drawn from. Times are ns from the first moment of the run.

export type Category =
  | "step" | "operator" | "annotation" | "runtime" | "python" | "compute" | "communication" | "memory" | "sync" | "input"
  | "waiting" | "other";

export interface Track {
  id: string;
  kind: "steps" | "path" | "stream" | "gaps" | "counter" | "host" | "worker";
  rank: number | null;
  pid: string | null;
  /** The process that it is drawn below. */
  group: string;
  name: string;
  /** Rows of spans; 0: a value over time. */
  lanes: number;
  count: number;
  first: number;
  last: number;
  unit: string | null;
  means: boolean;
  /** Stretches in which something could be recorded; null or absent: at all times. */
  recorded?: [number, number][] | null;
}

export interface Tracks {
  /** The moment that times count from, in ns: too large for a number. */
  origin: string;
  end: number;
  tracks: Track[];
  /** What of the run is not drawn, and why. */
  notes: string[];
}

/** Spans drawn by themselves (`start`, `length`, `name`), and merged ones: how many begin in a pixel of the frame. */
export interface LaneFrame {
  lane: number;
  start?: number[];
  length?: number[];
  name?: number[];
  pixel?: number[];
  count?: number[];
  /** Length of the merged spans together. */
  busy?: number[];
  /** Name of the longest of them. */
  longest?: number[];
}

export interface SpanFrame {
  id: string;
  drawn: number;
  merged: number;
  lanes: LaneFrame[];
}

export interface ValueFrame {
  id: string;
  low: (number | null)[];
  high: (number | null)[];
}

export interface Frame {
  start: number;
  end: number;
  width: number;
  names: [string, Category][];
  tracks: (SpanFrame | ValueFrame)[];
}

export interface Ref {
  track: string;
  lane: number;
  start: number;
}

export interface Found {
  total: number;
  distinct: number;
  names: [string, number][];
  position: number;
  hit: Ref | null;
  end: number | null;
  name: string;
}

export interface Argument {
  name: string;
  value: string | number | boolean;
  unit: string | null;
  meaning: string;
}

export interface Link {
  what: string;
  name: string;
  ref: Ref;
  end: number;
}

export interface SpanEvent {
  ref: Ref;
  name: string;
  category: Category;
  end: number;
  place: string | null;
  arguments: Argument[];
  links: Link[];
}

export type SumGroup = "work" | "around" | "idle" | "path";

export interface NameSum {
  group: SumGroup;
  name: string;
  category: Category;
  count: number;
  /** Time without what lies inside, on the same thread. */
  own: number;
  sum: number;
  longest: number;
  /** Time that any of them takes; null: too many spans to compute it. */
  union: number | null;
}

export interface Sums {
  spans: number;
  names: number;
  rows: NameSum[];
}

export interface Window {
  start: number;
  end: number;
}

export type Way = "" | "next" | "previous" | "in" | "out";

/** Where tracks and frames come from: a server, or the excerpt in a file. */
export interface Source {
  /** The part of the run that there is; null: all of it. */
  readonly held: Window | null;
  readonly path: string;
  tracks(): Promise<Tracks>;
  frame(window: Window, width: number, tracks: readonly number[]): Promise<Frame>;
  find(text: string, from: Ref | number, backwards: boolean): Promise<Found>;
  event(ref: Ref, way: Way): Promise<SpanEvent>;
  sums(window: Window, tracks: readonly number[]): Promise<Sums>;
}

export function isSpans(track: SpanFrame | ValueFrame): track is SpanFrame {
  return "lanes" in track;
}
