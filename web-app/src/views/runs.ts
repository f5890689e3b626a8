// The runs of a folder: what each was and what limits it, the trend of a command, and two of them compared.

import type { App, Cleanup } from "../app";
import { drawBlocks } from "../blocks";
import { breakable, sentence, unbroken } from "../blocks/words";
import type { ListedRun, Page } from "../document/types";
import { element, fill } from "../dom/element";
import { ABSENT, plain, quantity, signed } from "../format/format";

const SVG = "http://www.w3.org/2000/svg";
const FEWEST = 2; // runs of a command that make a trend
const [WIDE, HIGH] = [120, 22]; // px of a trend

export function drawRuns(main: HTMLElement, runs: readonly ListedRun[], app: App): Cleanup {
  const { words } = app;
  const host = element("div", { class: "run-list" });
  main.append(host);
  const picked = [app.state.get("a"), app.state.get("b")].filter(Boolean);
  host.append(element("h1", {}, words.runs(runs.length)), element("p", { class: "quiet" }, words.runsHint));
  host.append(table(runs, picked, app));
  const button = element("button", { type: "button", class: "compare", disabled: picked.length !== 2 }, words.comparePicked);
  button.addEventListener("click", () => compare(host, app));
  host.append(element("p", {}, button));
  host.addEventListener("change", () => {
    const chosen = [...host.querySelectorAll<HTMLInputElement>("input:checked")].map((box) => box.value);
    button.disabled = chosen.length !== 2;
  });
  let gone = false;
  const box = element("div", { class: "compared" });
  host.append(box);
  let clean: Cleanup | undefined;
  if (picked.length === 2) {
    fill(box, words.loading);
    app.fetchJson<Page>(`api/compare?a=${picked[0]}&b=${picked[1]}`).then(
      (page) => {
        if (!gone) clean = drawComparison(box, page, app);
      },
      (error: unknown) => fill(box, `${words.failed}: ${String(error)}`),
    );
  }
  return () => {
    gone = true;
    clean?.();
  };
}

/** The older one of two is A. */
function compare(host: HTMLElement, app: App): void {
  const [b = "", a = ""] = [...host.querySelectorAll<HTMLInputElement>("input:checked")].map((box) => box.value).sort((one, other) => Number(one) - Number(other));
  app.state.set({ a, b });
}

function drawComparison(box: HTMLElement, page: Page, app: App): Cleanup {
  const [first, ...rest] = page.sections.flatMap((section) => section.blocks);
  fill(box, element("h2", {}, `${app.words.comparison}: ${plain(page.subject, 300)}`), first?.kind === "text" ? element("p", { class: "next" }, sentence(app.words.say(first.text))) : "");
  box.scrollIntoView({ block: "start" });
  return drawBlocks(box, first?.kind === "text" ? rest : page.sections.flatMap((section) => section.blocks), app, "compared");
}

function byCommand(runs: readonly ListedRun[]): Map<string, ListedRun[]> {
  const found = new Map<string, ListedRun[]>();
  for (const run of runs) {
    const command = run.command.join(" ");
    found.set(command, [...(found.get(command) ?? []), run]);
  }
  return found;
}

/** One table, so that the columns of all commands stand below each other. */
function table(runs: readonly ListedRun[], picked: readonly string[], app: App): HTMLElement {
  const { words } = app;
  const heads = ["", words.run, words.when, words.stepTime, words.sinceBefore, words.samplesPerSecond, words.verdict, words.topFinding];
  const numbers = [words.stepTime, words.sinceBefore, words.samplesPerSecond];
  const head = element("tr", {}, ...heads.map((one) => element("th", { scope: "col", class: numbers.includes(one) ? "number" : "" }, one || element("span", { class: "offscreen" }, words.pick))));
  const bodies = [...byCommand(runs)].map(([command, own]) => {
    const name = element("div", { class: "of-command" }, element("code", {}, plain(command, 300) || words.noCommand), trend(own, app));
    return element("tbody", {}, element("tr", { class: "command" }, element("th", { scope: "rowgroup", colspan: heads.length }, name)), ...own.map((run) => row(run, picked.includes(run.key), app)));
  });
  const made = element("table", { class: "runs" }, element("thead", {}, head), ...bodies);
  return element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": words.listOfRuns }, made);
}

function row(run: ListedRun, picked: boolean, app: App): HTMLElement {
  const name = plain(run.name, 200);
  if (run.problem) return element("tr", { class: "broken" }, element("td", {}), element("td", {}, name), element("td", {}, run.when), element("td", { colspan: 5 }, sentence(app.words.say(plain(run.problem, 300)))));
  const link = new URLSearchParams(location.hash.slice(1));
  for (const key of ["a", "b", "view"]) link.delete(key);
  link.set("run", run.key);
  const box = element("input", { type: "checkbox", value: run.key, checked: picked, "aria-label": `${app.words.pick}: ${name}` });
  const changed = run.change === null ? ABSENT : signed(run.change, "ratio");
  const bound = app.words.say(run.bound);
  const verdict = run.share === null ? bound : `${bound} ${quantity(run.share, "ratio")}`;
  return element(
    "tr", {},
    element("td", {}, box),
    element("td", { class: "name" }, element("a", { href: `#${link.toString()}` }, breakable(name))),
    element("td", {}, run.when),
    element("td", { class: "number" }, unbroken(quantity(run.step_ns, "ns"))),
    element("td", { class: `number ${run.change === null ? "" : run.change > 0 ? "slower" : "faster"}` }, unbroken(changed)),
    element("td", { class: "number" }, quantity(run.samples_per_second, "count")),
    element("td", { class: "name" }, unbroken(verdict)),
    element("td", { class: "long" }, sentence(app.words.say(plain(run.finding, 300)) || ABSENT)),
  );
}

/** The mean steps of the runs of a command, from the oldest to the newest. */
function trend(runs: readonly ListedRun[], app: App): SVGSVGElement | string {
  const steps = runs.map((run) => run.step_ns).filter((step): step is number => step !== null).reverse();
  if (steps.length < FEWEST) return "";
  const most = Math.max(...steps);
  const drawing = document.createElementNS(SVG, "svg");
  const said = `${app.words.trend}: ${steps.map((step) => quantity(step, "ns")).join(", ")}`;
  drawing.setAttribute("class", "trend");
  drawing.setAttribute("viewBox", `0 0 ${WIDE} ${HIGH}`);
  drawing.setAttribute("role", "img");
  drawing.setAttribute("aria-label", said);
  const path = document.createElementNS(SVG, "path");
  const points = steps.map((step, at) => `${((at * (WIDE - 4)) / (steps.length - 1) + 2).toFixed(1)},${(HIGH - 2 - (step / most) * (HIGH - 4)).toFixed(1)}`);
  path.setAttribute("d", `M${points.join("L")}`);
  const title = document.createElementNS(SVG, "title");
  title.textContent = said;
  drawing.append(title, path);
  return drawing;
}
