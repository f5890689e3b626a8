// The JSON documents that the page is drawn from: src/stepscope/render/report.schema.json says what each key means.

export type Unit = "ns" | "bytes" | "ratio" | "count" | "watts" | "GB/s" | "FLOP" | "FLOP/s" | "money";
export type Cell = string | number | boolean | null;

export interface Column {
  name: string;
  unit: Unit | null;
  /** What the numbers mean; empty where nothing is known. */
  meaning?: string;
  /** Numbers that need not be whole; without it they are. */
  decimal?: boolean;
}

export interface TextBlock {
  kind: "text";
  text: string;
}

export interface VerdictBlock {
  kind: "verdict";
  bound: string;
  /** The rank that its figures are of; null where it is of all, or of none. */
  rank: number | null;
  share: number | null;
  sentence: string;
  steps: number | null;
  /** What to record or do so that more is known; empty where nothing is missing. */
  next: string;
}

export interface TableBlock {
  kind: "table";
  title: string;
  columns: Column[];
  rows: Cell[][];
  /** The analysis that has all the rows, or nothing. */
  source?: string;
  /** The column of differences B less A, after those of A and of B. */
  change?: number;
}

export interface BarsBlock {
  kind: "bars";
  title: string;
  unit: Unit;
  parts: { label: string; value: number | null }[];
  whole: number | null;
}

export interface Place {
  file: string;
  line: number;
  symbol: string;
  text: string;
  /** The place's part of what `of` names; null: not measured. */
  share: number | null;
  /** Loading time, the step, …; empty without a share. */
  of: string;
  /** Number of the first line of `around`. */
  first: number;
  /** Source lines around the place, kept with the run; empty: none were kept. */
  around: string[];
}

export type Pool = "data-wait" | "host" | "device" | "communication" | "copies" | "repeated-steps";

export interface Gain {
  low_ns: number;
  high_ns: number;
  step_ns: number;
  basis: string;
  confidence: string;
  /** Time of the step that it comes out of; null: that of the finding's cause. */
  pool: Pool | null;
  /** Of a fix that is new code: k, and ns saved where it becomes k times as fast; the range is then without the code. */
  curve: [number, number][];
}

export interface Evidence {
  label: string;
  value: number | null;
  unit: Unit | null;
  source: string;
  step?: number | null;
  /** The value's part of the mean step. */
  share: number | null;
  /** The whole that the value belongs to, in its unit. */
  of: number | null;
}

export interface Finding {
  rule: string;
  title: string;
  cause: string;
  ranks: number[];
  gain: Gain | null;
  evidence: Evidence[];
  where: Place[];
  advice: { text: string; code: string; language: "python" | "shell" }[];
  /** Stepscope command that tries the advice; empty if there is none. */
  trial: string;
}

/** Findings that save the same time, by their positions, and what they save together at most. */
export interface Overlap {
  findings: number[];
  most_ns: number;
  step_ns: number;
}

export type FindingBlock = Finding & { kind: "finding" };

export interface LinesBlock {
  kind: "lines";
  title: string;
  x: string;
  x_unit: Unit | null;
  unit: Unit;
  stacked: boolean;
  lines: { label: string; points: [number, number | null][] }[];
  limits: { label: string; value: number }[];
  /** Moment on the clock of traces that an axis of time counts from, in ns. */
  began?: string | null;
  /** The analysis that tells more of a range of time, or nothing. */
  opens?: string;
  /** Where x is 0, in ns since the start of the recording. */
  origin?: number;
}

export interface LanesBlock {
  kind: "lanes";
  title: string;
  length: number;
  kinds: string[];
  lanes: { label: string; spans: [number, number, string][] }[];
}

export interface HeatmapBlock {
  kind: "heatmap";
  title: string;
  x: string;
  y: string;
  unit: Unit;
  xs: number[];
  ys: number[];
  values: (number | null)[][];
}

export type FrameKind = "root" | "phase" | "user" | "library" | "module" | "operator" | "annotation" | "call" | "unknown" | "rest";

export interface Frame {
  name: string;
  kind: FrameKind;
  /** Empty where it is no place in Python code. */
  file: string;
  line: number;
  text: string;
}

export interface FlameBlock {
  kind: "flame";
  title: string;
  unit: Unit;
  frames: Frame[];
  /** Depth first: frame, parent (-1: the root), self, total, samples or calls. */
  nodes: [number, number, number, number, number][];
  counts: "samples" | "calls";
  /** Steps in which calls are counted; null: in all. */
  steps: number | null;
  note: string;
  source: string;
}

export interface RooflineBlock {
  kind: "roofline";
  title: string;
  /** Of the device's memory, bytes/s. */
  bandwidth: number;
  /** FLOP/s in a precision. */
  roofs: { label: string; peak: number }[];
  /** FLOP per byte, FLOP/s, and the time in ns. */
  points: { label: string; intensity: number; speed: number; total: number }[];
}

export interface IntervalBlock {
  kind: "interval";
  outcome: "faster" | "slower" | "same" | "inconclusive";
  title: string;
  estimate: number;
  low: number;
  high: number;
  meaning: string;
  widened: [number, number] | null;
}

export interface TreeBlock {
  kind: "tree";
  title: string;
  unit: Unit;
  /** Depth, name, calls A and B, own time A and B, time with all inside A and B; null on a side without it. */
  rows: [number, string, number | null, number | null, number | null, number | null, number | null, number | null][];
  left_out: number;
}

export type Block =
  | TextBlock
  | VerdictBlock
  | TableBlock
  | BarsBlock
  | FindingBlock
  | LinesBlock
  | HeatmapBlock
  | FlameBlock
  | LanesBlock
  | RooflineBlock
  | IntervalBlock
  | TreeBlock;

export interface Section {
  /** Heading of the navigation under which it stands. */
  group: string;
  name: string;
  title: string;
  missing: { what: string; how: string } | null;
  blocks: Block[];
}

export interface Report {
  schema: "stepscope-report";
  version: number;
  run: {
    path: string;
    command: string[] | null;
    framework: string | null;
    ranks: number[];
    devices: { rank: number; device: number; name: string | null }[];
    steps: number;
    step_ns: { median: number; mean: number; p10: number; p90: number } | null;
  };
  verdict: VerdictBlock;
  findings: Finding[];
  overlaps: Overlap[];
  checked: string[];
  unchecked: { rule: string; missing: string; how: string }[];
  skipped: { source: string; reason: string; count: number }[];
  sections: Section[];
}

/** A document that is no report, such as a comparison. */
/** A run in the list of those in a folder; `key` is the begin of its addresses. */
export interface ListedRun {
  key: string;
  name: string;
  command: string[];
  when: string;
  step_ns: number | null;
  samples_per_second: number | null;
  /** Of the step since the run of the same command before: 0.1 is a tenth longer. */
  change: number | null;
  bound: string;
  share: number | null;
  finding: string;
  problem: string;
}

export interface Page {
  schema: "stepscope-page";
  version: number;
  name: string;
  subject: string;
  sections: Section[];
  /** The runs of a folder, where the document is their list. */
  runs?: ListedRun[];
}

export type Document = Report | Page;
