// A finding as a card: what it saves, the line that costs it, what to write instead, why, and what the gain rests on.

import type { App } from "../app";
import type { Evidence, Finding, Gain } from "../document/types";
import { copyButton } from "../dom/copy";
import { element } from "../dom/element";
import { codeLines, curvePoints, figureText, gainParts, isAtMost, mostOf, plain } from "../format/format";
import { showSteps } from "../timeline";
import type { Words } from "../words/en";
import { litBy } from "../timeline/lit";
import { sourceAddress } from "../views/sources";
import { findingKey } from "./finding_address";
import { findingButtons } from "./finding_buttons";
import { drawPlaces } from "./places";
import { explained } from "./terms";
import { hasTimeline, whenButton } from "./when";
import { sentence, unbroken } from "./words";

const FACTS = 3; // figures on the first screen: the cost, the figure of the cause, the setting at fault
const METHODS = ["simulated", "benchmarked", "measured"]; // how the bases of gains begin that name theirs

/** `number`: its place among the findings of a report, from 1; 0: it stands alone. */
export function drawFinding(host: HTMLElement, finding: Finding, app: App, number = 0): void {
  const { words } = app;
  const key = findingKey(finding, app);
  const [first, ...others] = finding.advice;
  const article = element("article", { class: "finding", tabindex: "-1", "data-finding": key });
  article.append(
    title(finding, number, key, app),
    drawPlaces(finding.where, app),
    element("div", { class: "card" },
      ...(first ? row(words.fix, element("p", {}, sentence(words.say(plain(first.text, 1000)))), first.code ? code(first.code, app) : null) : []),
      ...(finding.evidence.length ? row(words.why, facts(finding.evidence.slice(0, FACTS), words)) : []),
      ...(finding.gain ? row(words.basis, element("p", {}, unbroken(basisWords(finding.gain, app)))) : []),
      ...(finding.trial ? row(words.tryIt, element("code", {}, finding.trial)) : []),
    ),
    findingButtons(finding, key, app),
    more(finding, others, app),
  );
  host.append(article);
}

/** `could save 8–13 % (12–20 ms per step)`, in the language of the page. */
export function gainWords(finding: Finding, app: App): string {
  const { words, document } = app;
  if (!finding.gain) return "";
  const ofSteps = document.schema === "stepscope-report" && document.run.step_ns !== null;
  const { times, shares } = gainParts(finding.gain, ofSteps);
  if (shares && finding.gain.pool === "repeated-steps") return words.savesSteps(shares);
  if (shares && isAtMost(finding.gain)) return words.savesAtMost(...mostOf(finding.gain));
  return shares ? words.savesOfStep(shares, times) : words.savesOfRecording(times);
}

function title(finding: Finding, number: number, key: string, app: App): HTMLElement {
  const name = app.words.say(plain(finding.title, 400));
  const heading = key ? element("a", { href: app.state.address({ view: "", finding: key }), title: app.words.ownAddress }, sentence(name)) : sentence(name);
  const gain = finding.gain ? element("span", { class: "gain" }, unbroken(gainWords(finding, app))) : null;
  return element("div", { class: "title" }, number ? element("span", { class: "ordinal", "aria-hidden": "true" }, String(number)) : null, element("h3", {}, heading), gain);
}

function row(name: string, ...content: (Node | null)[]): HTMLElement[] {
  return [element("div", { class: "row" }, element("span", { class: "label" }, name), element("div", {}, ...content))];
}

/** `148 ms` CPU per batch · … */
function facts(evidence: readonly Evidence[], words: Words): HTMLElement {
  const items = evidence.map((one) => element("li", {}, explained(words.say(plain(one.label)), words), " ", element("b", {}, unbroken(figureText(one, words.of)))));
  return element("ul", { class: "why" }, ...items);
}

/** How the gain was predicted; as basis_texts in render/format.py. */
function basisWords(gain: Gain, app: App): string {
  const { words } = app;
  const points = curvePoints(gain);
  const basis = words.say(plain(gain.basis, 400)) + (points.length ? words.savesWhenFaster(points) : "");
  if (METHODS.some((method) => gain.basis.startsWith(method))) return basis;
  return gain.confidence === "benchmarked" ? words.benchmarked(basis) : words.estimated(basis);
}

/** All that was measured, and what else could be done. */
function more(finding: Finding, others: Finding["advice"], app: App): HTMLElement {
  const { words } = app;
  const details = element("details", { class: "all-evidence" }, element("summary", {}, words.allEvidence));
  details.append(evidence(finding, app), typicalStep(finding, app) ?? "");
  if (others.length) details.append(element("h4", {}, words.otherFixes));
  for (const advice of others) {
    details.append(element("p", { class: "advice" }, sentence(words.say(plain(advice.text, 1000)))));
    if (advice.code) details.append(code(advice.code, app));
  }
  const page = element("a", { href: app.state.address({ view: "rule", rule: finding.rule, finding: "" }) }, plain(finding.rule));
  if (finding.gain) details.append(element("p", { class: "quiet" }, `${words.gain}: `, sentence(words.say(plain(finding.gain.basis, 400))), ` (${words.confidence[finding.gain.confidence] ?? finding.gain.confidence})`));
  details.append(element("p", { class: "quiet" }, `${words.rule} `, page, `${words.comma}${words.cause}: ${words.causes[finding.cause] ?? finding.cause}`));
  return details;
}

function evidence(finding: Finding, app: App): HTMLElement | string {
  const items = finding.evidence.map((one) =>
    element(
      "div",
      {},
      element("dt", {}, app.words.say(plain(one.label))),
      element("dd", {}, unbroken(figureText(one, app.words.of)), " ", source(one.source, app), inStep(finding, one.step, app)),
    ),
  );
  return items.length ? element("dl", { class: "evidence" }, ...items) : "";
}

/** The way to the step in which a value is seen. */
function inStep(finding: Finding, step: number | null | undefined, app: App): HTMLElement | null {
  if (typeof step !== "number" || !hasTimeline(app)) return null;
  const name = `${app.words.step} ${step}`;
  return whenButton(name, name, () => showSteps({ first: step, rank: finding.ranks[0] ?? null, lit: litBy(finding) }, app.words.say(plain(finding.title, 400)), app), app);
}

/** The way to a step that is like most, where the evidence names none and there are steps. */
function typicalStep(finding: Finding, app: App): HTMLElement | null {
  const steps = app.document.schema === "stepscope-report" && app.document.run.steps > 0;
  if (!steps || !hasTimeline(app) || finding.evidence.some((one) => typeof one.step === "number")) return null;
  const go = () => showSteps({ rank: finding.ranks[0] ?? null, lit: litBy(finding) }, app.words.say(plain(finding.title, 400)), app);
  return element("p", { class: "seen" }, `${app.words.showMe}: `, whenButton(app.words.typicalStep, app.words.typicalStep, go, app));
}

/** The analysis a value is from: a link to where it can be checked. */
function source(name: string, app: App): HTMLElement {
  const address = sourceAddress(name, app);
  const label = plain(name);
  return address ? element("a", { href: address, class: "source", title: `${app.words.showMe}: ${label}` }, label) : element("code", { class: "source" }, label);
}

function code(text: string, app: App): HTMLElement {
  const lines = codeLines(text).join("\n");
  const button = copyButton(app.words.copyCode, app.words.copied, () => lines);
  return element("div", { class: "code" }, element("pre", { tabindex: "0" }, element("code", {}, lines)), button);
}
