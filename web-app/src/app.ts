// What every part of the page gets: the document, how the page is used, and where it stands.

import type { Document } from "./document/types";
import type { Beside } from "./shell/switch";
import type { State } from "./state/state";
import type { Words } from "./words/en";

export interface App {
  readonly document: Document;
  /** True if a server has the tables and the timeline of what is shown, false if it is a file or a comparison. */
  readonly served: boolean;
  /** False while only the first screen of the report is there: what stands below or beside it is not drawn yet. */
  readonly whole: boolean;
  /** The runs that are served beside what the page shows first. */
  readonly beside: readonly Beside[];
  readonly state: State;
  readonly words: Words;
  /** JSON of a path of the server, such as `api/tables`; only where `served`. */
  fetchJson<T>(path: string): Promise<T>;
  /** The whole address of such a path. */
  at(path: string): string;
}

/** Undo what drawing did beyond the element it drew into: listeners of the window, charts. */
export type Cleanup = () => void;

/** A page of the app. `name` stands in the address (`#view=name`), `group` is its heading in the navigation. */
export interface View {
  readonly name: string;
  readonly group: Group;
  /** Whether there is anything to show; without it there always is. */
  available?(app: App): boolean;
  /** True: links lead to it, and the navigation does not list it. */
  readonly hidden?: boolean;
  title(app: App): string;
  draw(host: HTMLElement, app: App): Cleanup | void;
}

export const GROUPS = [
  "overview",
  "input",
  "operators",
  "kernels",
  "modules",
  "memory",
  "distributed",
  "idle",
  "timeline",
  "comparison",
  "quality",
  "tables",
] as const;

export type Group = (typeof GROUPS)[number];
