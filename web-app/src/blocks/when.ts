// Controls that jump to a place of the timeline, or say what shows it where this page cannot.

import type { App } from "../app";
import type { Led } from "../charts/chart";
import { showDialog } from "../dom/dialog";
import { element } from "../dom/element";
import { pathOf } from "../tables/deeper";
import { showSince, showSteps, timeline } from "../timeline";

/** Whether there is a timeline to jump to. */
export function hasTimeline(app: App): boolean {
  return timeline.available?.(app) ?? false;
}

/** A button that goes somewhere in the timeline: `go` gives false where this page does not hold the place. */
export function whenButton(label: string, name: string, go: () => Promise<boolean>, app: App): HTMLButtonElement {
  const button = element("button", { type: "button", class: "when", title: `${name}: ${app.words.inTimeline}`, "aria-label": `${name}: ${app.words.inTimeline}` }, label);
  button.addEventListener("click", (event) => {
    event.stopPropagation();
    void visit(go, app);
  });
  return button;
}

/** A button that goes there, beside others of its kind. */
export function goButton(label: string, go: () => Promise<boolean>, app: App): HTMLButtonElement {
  const button = element("button", { type: "button", class: "small", title: `${app.words.showMe}: ${app.words.inTimeline}` }, label);
  button.addEventListener("click", () => void visit(go, app));
  return button;
}

/** Go to the steps that a bar, or a column, of a chart stands for: those before the next one. */
export function goToColumn(xs: readonly number[], at: number, rank: number | null, app: App): void {
  const [first, next] = [xs[Math.max(at, 0)], xs[Math.max(at, 0) + 1]];
  if (first === undefined) return;
  void visit(() => showSteps({ first, last: next === undefined ? first : next - 1, rank }, `${app.words.step} ${first}`, app), app);
}

/** What a click on a chart over time does: `began` is what its axis counts from, on the clock of traces. */
export function toMoments(began: string, app: App): Led {
  return (chart, at) => {
    if (!chart.containPixel("grid", at)) return;
    const moment = Math.round(chart.convertFromPixel("grid", at)[0] ?? 0);
    void visit(() => showSince({ began, clock: "trace" }, moment, null, null, app), app);
  };
}

/** Beneath a chart over steps: the way into the timeline without a mouse. */
export function stepForm(xs: readonly number[], ranks: readonly number[], app: App): HTMLElement {
  const { words } = app;
  const step = element("input", { type: "number", min: xs[0], max: xs.at(-1), value: xs[0], required: true, "aria-label": words.step });
  const rank = element("select", { "aria-label": words.rank }, ...ranks.map((one) => element("option", { value: one }, String(one))));
  const choice = ranks.length ? element("label", {}, `${words.rank} `, rank) : null;
  const form = element("form", { class: "to-step" }, element("label", {}, `${words.step} `, step), choice, element("button", { class: "small" }, words.inTimeline));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const first = Number(step.value);
    void visit(() => showSteps({ first, rank: ranks.length ? Number(rank.value) : null }, `${words.step} ${first}`, app), app);
  });
  return form;
}

async function visit(go: () => Promise<boolean>, app: App): Promise<void> {
  let why = app.words.notDrawn;
  try {
    if (await go()) return;
    if (!app.served) why = app.words.notInFile;
  } catch (error) {
    why = `${app.words.failed}: ${String(error)}`;
  }
  const command = app.served ? [] : [" ", element("code", {}, `stepscope view ${pathOf(app.document)}`)];
  showDialog(app.words.inTimeline, app.words.close, element("p", {}, why, ...command));
}
