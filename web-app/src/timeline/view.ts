// The timeline as a view of the page: from the server, or from the excerpt that the file holds.

import type { App, Cleanup, View } from "../app";
import { element } from "../dom/element";
import { pathOf } from "../tables/deeper";
import { unpacked } from "../document/packed";
import { FileSource, type Excerpt } from "./excerpt";
import { perfettoBox } from "./perfetto";
import { parsed } from "./scale";
import { serverSource } from "./server";
import { mountTimeline, type Timeline } from "./timeline";
import type { Source, Window } from "./types";
import { timelineWords } from "./words";

const EXCERPT = "timeline-data";

export const timeline: View = {
  name: "timeline",
  group: "timeline",
  available: (app) => app.document.schema === "stepscope-report" && (app.served || document.getElementById(EXCERPT) !== null),
  title: () => timelineWords().title,
  draw: (host, app) => {
    let drawn: Timeline | undefined;
    let gone = false;
    const box = element("div", { class: "to-come" }); // the tracks come later than what stands below them
    host.append(element("h2", { class: "offscreen" }, timelineWords().title), box);
    void sourceOf(app).then((source) => {
      if (!gone) drawn = mountTimeline(box, source, { window: asked(app), name: app.state.get("shown"), lit: app.state.get("lit").split(",").filter(Boolean), say: app.words.say, onWindow: (window) => keep(app, window) });
      if (!gone) host.append(app.served ? perfettoBox(app, () => asked(app) ?? null) : exportLine(app));
    });
    return () => {
      gone = true;
      drawn?.end();
    };
  },
} satisfies View & { draw(host: HTMLElement, app: App): Cleanup };

/** Open the timeline at a window: ns from the first moment of the run. `name` says what is seen there. */
export function showWindow(from: number, to: number, name = "", lit: readonly string[] = []): void {
  const all = new URLSearchParams(location.hash.slice(1));
  for (const [key, value] of Object.entries({ view: "timeline", from: String(Math.floor(from)), to: String(Math.ceil(to)), shown: name, lit: lit.join(",") })) {
    if (value) all.set(key, value);
    else all.delete(key);
  }
  location.hash = all.toString();
}

function exportLine(app: App): HTMLElement {
  return element("p", { class: "quiet" }, `${timelineWords().exported} `, element("code", {}, `stepscope export ${pathOf(app.document)}`));
}

async function sourceOf(app: App): Promise<Source> {
  const path = app.document.schema === "stepscope-report" ? app.document.run.path : "";
  if (app.served) return serverSource((asked) => app.fetchJson(asked), path);
  const excerpt = await unpacked<Excerpt>("timeline-data");
  if (!excerpt) throw new Error("this file holds no timeline");
  return new FileSource({ ...excerpt, path });
}

function asked(app: App): Window | undefined {
  const [start, end] = [parsed(app.state.get("from")), parsed(app.state.get("to"))];
  return Number.isFinite(start) && end > start ? { start, end } : undefined;
}

function keep(app: App, window: Window): void {
  app.state.set({ from: String(Math.floor(window.start)), to: String(Math.ceil(window.end)) }, "replace");
}
