// The first screen: what limits the run, the step as a bar, and the finding that saves most, with all else below.

import type { App, Cleanup, View } from "../app";
import { drawBlocks } from "../blocks";
import { drawFinding } from "../blocks/finding";
import { findingKey } from "../blocks/finding_address";
import { drawSparkline } from "../blocks/sparkline";
import { explained } from "../blocks/terms";
import { sentence } from "../blocks/words";
import type { Block, LinesBlock, Page, Report } from "../document/types";
import { element } from "../dom/element";
import { counted, plain, quantity } from "../format/format";
import { checks } from "./checks";
import { drawRuns } from "./runs";

export const overview: View = {
  name: "overview",
  group: "overview",
  title: (app) => app.words.overview,
  draw: (host, app) => (app.document.schema === "stepscope-report" ? drawReport(host, app.document, app) : drawPage(host, app.document, app)),
};

function drawPage(host: HTMLElement, page: Page, app: App): Cleanup {
  if (page.runs) return drawRuns(host, page.runs, app);
  const [first, ...rest] = page.sections[0]?.blocks ?? [];
  host.append(element("h1", {}, first?.kind === "text" ? sentence(app.words.say(first.text)) : plain(page.name)));
  return drawBlocks(host, rest, app, "overview");
}

function drawReport(host: HTMLElement, report: Report, app: App): Cleanup {
  const { above, shown, folded } = blocksOf(report);
  host.append(element("h1", {}, explained(app.words.say(report.verdict.sentence), app.words)));
  const cleanups = [drawBlocks(host, above, app, "overview")];
  const steps = overSteps(report);
  if (steps) cleanups.push(drawSparkline(host, steps, app, "overview.steps"));
  cleanups.push(drawBlocks(host, shown, app, "overview"));
  host.append(findings(report, app));
  const next = nextOf(report, [...above, ...shown]);
  if (next) host.append(element("p", { class: "next" }, sentence(app.words.say(`Next: ${next}.`))));
  if (!app.whole) return () => cleanups.forEach((clean) => clean()); // the foot needs what all sections lack
  const about = element("details", { class: "about" }, element("summary", {}, app.words.aboutRun), facts(report, app));
  cleanups.push(drawBlocks(about, folded, app, "overview.about"));
  host.append(checks(report, app), about);
  return () => cleanups.forEach((clean) => clean());
}

/**
 * What of the summary stands above the findings: the bar, then warnings. How the means were taken is folded, but not alone.
 * Without findings its sentences come before its tables, and a recording that tells of no step begins with what it has.
 */
function blocksOf(report: Report): { above: Block[]; shown: Block[]; folded: Block[] } {
  const blocks = (report.sections.find((section) => section.name === "summary")?.blocks ?? []).filter((block) => block.kind !== "verdict");
  const bar = blocks.findIndex((block) => block.kind === "bars");
  const [above, below] = [blocks.slice(0, bar + 1), blocks.slice(bar + 1)];
  if (report.findings.length) return bar < 0 ? { above: [], shown: below, folded: [] } : { above, shown: [], folded: below };
  const ordered = [...below.filter((block) => block.kind === "text"), ...below.filter((block) => block.kind !== "text")];
  return { above, shown: blocks.length ? ordered : firstChart(report), folded: [] };
}

/** What to do next where nothing was found; empty where the verdict or a sentence of the summary says it already. */
function nextOf(report: Report, blocks: readonly Block[]): string {
  const next = plain(report.verdict.next, 400);
  const told = [report.verdict.sentence, ...blocks.map((block) => (block.kind === "text" ? block.text : ""))].join(" ");
  return report.findings.length || told.includes(next) ? "" : next;
}

function firstChart(report: Report): Block[] {
  const chart = report.sections.flatMap((section) => section.blocks).find((block) => block.kind === "lines");
  return chart ? [chart] : [];
}

/** The chart over steps: of the rank that the verdict is of, where each rank has its own. */
function overSteps(report: Report): LinesBlock | undefined {
  const charts = (report.sections.find((section) => section.name === "step-times")?.blocks ?? []).filter((block): block is LinesBlock => block.kind === "lines");
  return charts.find((chart) => chart.title.endsWith(`rank ${report.verdict.rank}`)) ?? charts[0];
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

function findings(report: Report, app: App): HTMLElement | string {
  if (!report.findings.length) return ""; // the summary says what was looked for
  const part = element("section", { class: "findings", "aria-label": app.words.findings });
  report.findings.forEach((finding, at) => {
    if (at === 1) part.append(element("h2", {}, app.words.otherFindings), ...overlaps(report, app));
    drawFinding(part, finding, app, report.findings.length > 1 ? at + 1 : 0);
  });
  return part;
}

/** Findings that save the same time, and what they save together. */
function overlaps(report: Report, app: App): HTMLElement[] {
  return report.overlaps.map((group) => {
    const numbers = group.findings.flatMap((at, place) => {
      const finding = report.findings[at];
      const link = finding ? element("a", { href: app.state.address({ view: "", finding: findingKey(finding, app) }) }, String(at + 1)) : String(at + 1);
      return place ? [", ", link] : [link];
    });
    const most = report.run.step_ns && group.step_ns ? quantity(group.most_ns / group.step_ns, "ratio") : quantity(group.most_ns, "ns");
    const sum = group.findings.reduce((all, at) => all + (report.findings[at]?.gain?.high_ns ?? 0), 0);
    return element("p", { class: "overlap" }, ...numbers, `: ${sum > group.most_ns ? app.words.overlap : app.words.together} ${most}`);
  });
}
