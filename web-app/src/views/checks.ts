// The foot of the first screen: which checks found nothing, and which need more data.

import type { App } from "../app";
import { drawBlocks } from "../blocks";
import { sentence } from "../blocks/words";
import type { Report } from "../document/types";
import { element } from "../dom/element";
import { plain } from "../format/format";
import { ruleAddress } from "./rule_page";

const DEVICE_WORK = "work on an accelerator"; // what a run without one lacks, as in core/errors.py

export function checks(report: Report, app: App): HTMLElement {
  const { words } = app;
  const found = new Set(report.findings.map((finding) => finding.rule));
  const clear = report.checked.filter((rule) => !found.has(rule));
  const foot = element("footer", { class: "checks" });
  if (clear.length) {
    const rules = clear.flatMap((rule, at) => [at ? ", " : "", ruleLink(rule, app)]);
    foot.append(element("details", { class: "clear" }, element("summary", {}, words.checksClear(clear.length)), element("p", {}, ...rules)));
  }
  const section = report.sections.find((one) => one.name === "unchecked");
  if (report.unchecked.length) {
    const lacking = report.unchecked.filter((one) => one.missing !== DEVICE_WORK).length;
    const part = element("details", { class: "unchecked" }, element("summary", {}, words.checksLacking(lacking, report.unchecked.length - lacking)));
    if (section) drawBlocks(part, section.blocks, app, "unchecked");
    foot.append(part);
  }
  foot.append(notRecorded(report, app));
  return foot;
}

function ruleLink(rule: string, app: App): Node | string {
  const address = ruleAddress(rule, app);
  return address ? element("a", { href: address }, plain(rule)) : plain(rule);
}

function notRecorded(report: Report, app: App): HTMLElement | string {
  const lacking = new Map<string, string[]>();
  for (const section of report.sections) {
    if (section.missing) lacking.set(section.missing.how, [...(lacking.get(section.missing.how) ?? []), app.words.say(section.title)]);
  }
  if (!lacking.size) return "";
  const count = [...lacking.values()].reduce((sum, titles) => sum + titles.length, 0);
  const items = [...lacking].map(([how, titles]) => element("li", {}, `${plain(titles.join(", "), 400)}: `, sentence(app.words.say(plain(how, 400)))));
  return element("details", { class: "not-recorded" }, element("summary", {}, `${app.words.notRecorded} (${count})`), element("ul", {}, ...items));
}
