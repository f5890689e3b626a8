// The first screen: what limits the run, what to change, how sure that is, and what could not be checked.

import type { App, Cleanup, View } from "../app";
import { drawBlocks } from "../blocks";
import { drawFinding, gainWords } from "../blocks/finding";
import { sentence } from "../blocks/words";
import type { Block, Page, Report } from "../document/types";
import { element } from "../dom/element";
import { counted, plain, quantity } from "../format/format";
import { named } from "../words";

export const overview: View = {
  name: "overview",
  group: "overview",
  title: (app) => app.words.overview,
  draw: (host, app) => (app.document.schema === "stepscope-report" ? drawReport(host, app.document, app) : drawPage(host, app.document, app)),
};

function drawPage(host: HTMLElement, page: Page, app: App): Cleanup {
  const [first, ...rest] = page.sections[0]?.blocks ?? [];
  host.append(element("h1", {}, first?.kind === "text" ? sentence(first.text) : plain(page.name)));
  return drawBlocks(host, rest, app, "overview");
}

function drawReport(host: HTMLElement, report: Report, app: App): Cleanup {
  host.append(
    element("p", { class: "question" }, app.words.limits),
    element("h1", {}, sentence(report.verdict.sentence)),
    facts(report, app),
    answers(report, app),
  );
  const summary = report.sections.find((section) => section.name === "summary");
  const blocks = (summary?.blocks ?? []).filter((block) => block.kind !== "verdict");
  const clean = drawBlocks(host, [...blocks, ...overSteps(report)], app, "overview");
  host.append(findings(report, app), unchecked(report, app), notRecorded(report, app));
  return clean;
}

/** The steps as bars over steps belong beneath the mean step. */
function overSteps(report: Report): Block[] {
  return report.sections.find((section) => section.name === "step-times")?.blocks.filter((block) => block.kind === "lines").slice(0, 1) ?? [];
}

function facts(report: Report, app: App): HTMLElement {
  const { words } = app;
  const { run } = report;
  const models = new Map<string, number>();
  for (const device of run.devices) models.set(device.name ?? "", (models.get(device.name ?? "") ?? 0) + 1);
  const rows: [string, string][] = [[words.steps, counted(run.steps, "", "").trim()]];
  if (run.step_ns) rows.push([words.stepTime, quantity(run.step_ns.mean, "ns")]);
  if (run.step_ns && run.step_ns.p10 < run.step_ns.p90) rows.push([words.spread, `${quantity(run.step_ns.p10, "ns")} – ${quantity(run.step_ns.p90, "ns")}`]);
  rows.push([words.ranks, String(run.ranks.length)]);
  if (models.size) rows.push([words.devices, [...models].map(([name, count]) => (name ? `${count} × ${plain(name)}` : String(count))).join(", ")]);
  if (run.framework) rows.push([words.framework, plain(run.framework)]);
  if (run.command) rows.push([words.command, plain(run.command.join(" "), 400)]);
  return element("dl", { class: "facts" }, ...rows.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))));
}

/** What to change, or record, and how sure that is; the heading says what limits the run, the summary if nothing was found. */
function answers(report: Report, app: App): HTMLElement {
  const { words } = app;
  const [first] = report.findings;
  const change = first ? `${plain(first.title, 400)}${first.gain ? `: ${gainWords(first, app)}` : ""}` : report.verdict.next;
  const steps = report.verdict.steps ? `${words.steps}: ${counted(report.verdict.steps, "", "").trim()}. ` : "";
  const looked = `${report.checked.length} ${words.notCheckedLine} ${report.unchecked.length}.`;
  const sure = first?.gain ? `${words.gain}: ${words.confidence[first.gain.confidence] ?? first.gain.confidence}. ` : "";
  const rows = [
    [words.change, change],
    [words.sure, `${sure}${steps}${looked}`],
  ] as const;
  const told = rows.filter(([, value]) => value);
  return element("dl", { class: "answers" }, ...told.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, sentence(value)))));
}

function findings(report: Report, app: App): HTMLElement | string {
  if (!report.findings.length) return ""; // the summary says what was looked for
  const part = element("section", { class: "findings", "aria-label": app.words.findings }, element("h2", {}, app.words.findings));
  for (const finding of report.findings) drawFinding(part, finding, app);
  return part;
}

function unchecked(report: Report, app: App): HTMLElement | string {
  const section = report.sections.find((one) => one.name === "unchecked");
  if (!section?.blocks.length) return "";
  const part = element("details", { class: "unchecked" }, element("summary", {}, `${app.words.notChecked} (${report.unchecked.length})`));
  drawBlocks(part, section.blocks, app, "unchecked");
  return part;
}

function notRecorded(report: Report, app: App): HTMLElement | string {
  const lacking = new Map<string, string[]>();
  for (const section of report.sections) {
    if (section.missing) lacking.set(section.missing.how, [...(lacking.get(section.missing.how) ?? []), named(section.title, app.words)]);
  }
  if (!lacking.size) return "";
  const items = [...lacking].map(([how, titles]) => element("li", {}, `${plain(titles.join(", "), 400)}: `, sentence(plain(how, 400))));
  return element("section", { class: "not-recorded" }, element("h2", {}, app.words.notRecorded), element("ul", {}, ...items));
}
