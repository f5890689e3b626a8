// The run in Perfetto's own page, served from here, in a frame below the timeline: what it did not draw is read back.

import { element, fill } from "../dom/element";
import type { App } from "../app";
import type { Window } from "./types";
import { timelineWords } from "./words";

interface State {
  /** null: it is not installed. */
  version: string | null;
  how: string;
  spans: number;
  most: number;
}

/** What is used of Perfetto's page. */
interface Inside {
  app?: { trace?: { engine: { query(text: string): Promise<{ iter(row: object): { valid(): boolean; next(): void; get(name: string): unknown } }> } } };
}

const PATIENCE = 300_000; // ms: a slow machine compiles the trace processor for half a minute, and a large trace takes its time
const EVERY = 250;
const OPEN = JSON.stringify([{ id: "dev.perfetto.ExpandTracksByRegex", args: ["^rank "] }]);
const DROPPED = "select value from stats where name = 'slice_drop_overlapping_complete_event'";

/** Buttons for the window that is shown and for all of the run, and the place below them where Perfetto appears. */
export function perfettoBox(app: App, shown: () => Window | null): HTMLElement {
  const words = timelineWords();
  const place = element("div", { class: "perfetto" });
  const open = (window: Window | null) => void opened(place, app, window);
  const button = (label: string, window: () => Window | null) => element("button", { type: "button", class: "small", onclick: () => open(window()) }, label);
  return element("div", { class: "perfetto-box" }, element("p", { class: "controls" }, button(words.perfettoWindow, shown), button(words.perfettoWhole, () => null)), place);
}

async function opened(place: HTMLElement, app: App, window: Window | null): Promise<void> {
  const words = timelineWords();
  const status = element("p", { class: "quiet", role: "status" }, words.perfettoLoading);
  fill(place, status);
  try {
    const asked = window ? new URLSearchParams({ from: String(Math.floor(window.start)), to: String(Math.ceil(window.end)) }).toString() : "";
    const state = await app.fetchJson<State>(`api/perfetto?${asked}`);
    if (state.version === null) return fill(status, `${words.perfettoMissing} `, element("code", {}, state.how));
    if (state.spans > state.most) return fill(status, words.perfettoTooMany(state.spans, state.most));
    const trace = new URL(app.at(`api/perfetto/trace?${asked}`), location.href.split("#")[0]).href;
    const frame = element("iframe", { title: "Perfetto", src: `${app.at("perfetto/index.html")}#!/?url=${encodeURIComponent(trace)}&hideSidebar=true&startupCommands=${encodeURIComponent(OPEN)}` });
    const close = element("button", { type: "button", class: "small", onclick: () => closed(place) }, words.perfettoClose);
    fill(place, element("div", { class: "controls" }, status, close), frame);
    const dropped = await read(frame);
    if (dropped === null) return;
    fill(status, words.perfettoDropped(dropped, state.spans));
    const [timeStart, timeEnd] = window ? [window.start / 1e9, window.end / 1e9] : [];
    if (window) frame.contentWindow?.postMessage({ perfetto: { timeStart, timeEnd, viewPercentage: 1 } }, location.origin);
  } catch (error) {
    fill(status, `${words.failed}: ${String(error)}`);
  }
}

/** A run in progress, whose news waited for this, goes on. */
function closed(place: HTMLElement): void {
  fill(place);
  document.dispatchEvent(new Event("focusout"));
}

/** How many events its trace processor did not take, once it has read the trace; null: the frame was closed before. */
async function read(frame: HTMLIFrameElement): Promise<number | null> {
  const until = Date.now() + PATIENCE;
  while (frame.isConnected && Date.now() < until) {
    const engine = (frame.contentWindow as unknown as Inside | null)?.app?.trace?.engine;
    if (engine) {
      let dropped = 0;
      for (const row = (await engine.query(DROPPED)).iter({}); row.valid(); row.next()) dropped += Number(row.get("value"));
      return dropped;
    }
    await new Promise((resolve) => setTimeout(resolve, EVERY));
  }
  if (frame.isConnected) throw new Error(timelineWords().perfettoSilent);
  return null;
}
