// What one can do with a finding: copy it, open its place, see it in the timeline or as a flame graph, read about it.

import type { App } from "../app";
import type { Finding } from "../document/types";
import { copyButton } from "../dom/copy";
import { element } from "../dom/element";
import { figureText, placeText, plain } from "../format/format";
import { flameAddress, isLoading } from "../flame/tree_of";
import { editorAddress } from "../shell/editor";
import { showSteps } from "../timeline";
import { litBy } from "../timeline/lit";
import { hasRulePage } from "../views/rule_page";
import { whatIf } from "../views/what_if";
import { gainWords } from "./finding";
import { goButton, hasTimeline } from "./when";

export function findingButtons(finding: Finding, key: string, app: App): HTMLElement {
  const { words } = app;
  const [place] = finding.where;
  const editor = place ? editorAddress(place, app) : "";
  const flames = flameAddress(finding, app);
  const link = (address: string, label: string, title = "") => (address ? element("a", { class: "small", href: address, title: title || undefined }, label) : null);
  return element("div", { class: "actions" },
    copyButton(words.copy, words.copied, () => written(finding, key, app)),
    link(editor, words.toEditor, words.openEditor),
    hasTimeline(app) ? goButton(words.toTimeline, () => show(finding, app), app) : null,
    link(hasRulePage(finding.rule) ? app.state.address({ view: "rule", rule: finding.rule, finding: "" }) : "", words.toRule, words.toRuleHint),
    link(flames, words.toFlames), // the last two come with the sections, and move nothing
    link(isLoading(finding) && whatIf.available?.(app) ? app.state.address({ view: "what-if", finding: "" }) : "", words.whatIf.title),
  );
}

/** The step in which it is seen, else a typical one that was recorded in detail, with the spans that make it marked. */
function show(finding: Finding, app: App): Promise<boolean> {
  const step = finding.evidence.find((one) => typeof one.step === "number")?.step;
  return showSteps({ ...(typeof step === "number" ? { first: step } : {}), rank: finding.ranks[0] ?? null, lit: litBy(finding) }, app.words.say(plain(finding.title, 400)), app);
}

/** Markdown, for an issue, a pull request or a chat. */
function written(finding: Finding, key: string, app: App): string {
  const { words } = app;
  const gain = finding.gain ? `: ${gainWords(finding, app)}` : "";
  const lines = [`**${words.say(plain(finding.title, 400))}**${gain}`];
  for (const place of finding.where) lines.push(`- \`${placeText(place)}\`${place.text.trim() ? `: \`${plain(place.text.trim())}\`` : ""}`);
  for (const advice of finding.advice) lines.push("", words.say(plain(advice.text, 1000)), ...(advice.code ? [`\`\`\`${advice.language}`, advice.code, "```"] : []));
  lines.push("", ...finding.evidence.map((one) => `- ${words.say(plain(one.label))}: ${figureText(one, words.of)}`));
  if (key && location.protocol.startsWith("http")) lines.push("", location.href.replace(/#.*$/, app.state.address({ view: "", finding: key })));
  return lines.join("\n");
}
