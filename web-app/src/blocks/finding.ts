// A finding: what it saves, evidence, the place in the code, and what to write instead.

import type { App } from "../app";
import type { Finding, Place } from "../document/types";
import { copyButton } from "../dom/copy";
import { element } from "../dom/element";
import { codeLines, figureText, gainParts, placeText, plain } from "../format/format";
import { editorAddress } from "../shell/editor";
import { showSteps } from "../timeline";
import { sourceAddress } from "../views/sources";
import { hasTimeline, whenButton } from "./when";
import { breakable, sentence, unbroken } from "./words";

export function drawFinding(host: HTMLElement, finding: Finding, app: App): void {
  const article = element("article", { class: "finding", tabindex: "-1" });
  const gain = finding.gain ? element("span", { class: "gain" }, unbroken(gainWords(finding, app))) : null;
  article.append(
    element("div", { class: "title" }, element("h3", {}, plain(finding.title, 400)), gain),
    evidence(finding, app),
    typicalStep(finding, app) ?? "",
    places(finding.where, app),
  );
  for (const advice of finding.advice) {
    article.append(element("p", { class: "advice" }, sentence(plain(advice.text, 1000))));
    if (advice.code) article.append(code(advice.code, app));
  }
  article.append(footer(finding, app));
  host.append(article);
}

/** `could save 8–13 % (12–20 ms per step)`, in the language of the page. */
export function gainWords(finding: Finding, app: App): string {
  const { words, document } = app;
  if (!finding.gain) return "";
  const ofSteps = document.schema === "stepscope-report" && document.run.step_ns !== null;
  const { times, shares } = gainParts(finding.gain, ofSteps);
  return shares ? `${words.saves} ${shares} (${times} ${words.ofStep})` : `${words.saves} ${times} ${words.ofRecording}`;
}

function evidence(finding: Finding, app: App): HTMLElement | string {
  const items = finding.evidence.map((one) =>
    element(
      "div",
      {},
      element("dt", {}, plain(one.label)),
      element("dd", {}, unbroken(figureText(one)), " ", source(one.source, app), inStep(finding, one.step, app)),
    ),
  );
  return items.length ? element("dl", { class: "evidence" }, ...items) : "";
}

/** The way to the step in which a value is seen. */
function inStep(finding: Finding, step: number | null | undefined, app: App): HTMLElement | null {
  if (typeof step !== "number" || !hasTimeline(app)) return null;
  const name = `${app.words.step} ${step}`;
  return whenButton(name, name, () => showSteps({ first: step, rank: finding.ranks[0] ?? null }, plain(finding.title, 400), app), app);
}

/** The way to a step that is like most, where the evidence names none and there are steps. */
function typicalStep(finding: Finding, app: App): HTMLElement | null {
  const steps = app.document.schema === "stepscope-report" && app.document.run.steps > 0;
  if (!steps || !hasTimeline(app) || finding.evidence.some((one) => typeof one.step === "number")) return null;
  const go = () => showSteps({ rank: finding.ranks[0] ?? null }, plain(finding.title, 400), app);
  return element("p", { class: "seen" }, `${app.words.showMe}: `, whenButton(app.words.typicalStep, app.words.typicalStep, go, app));
}

/** The analysis a value is from: a link to where it can be checked. */
function source(name: string, app: App): HTMLElement {
  const address = sourceAddress(name, app);
  const label = plain(name);
  return address ? element("a", { href: address, class: "source", title: `${app.words.showMe}: ${label}` }, label) : element("code", { class: "source" }, label);
}

function places(where: readonly Place[], app: App): HTMLElement | string {
  const items = where.map((place) => {
    const address = editorAddress(place, app);
    const text = breakable(placeText(place));
    const name = address ? element("a", { href: address, title: app.words.openEditor }, text) : text;
    const line = place.text.trim();
    return element("li", {}, element("code", {}, name), line ? element("code", { class: "line" }, breakable(plain(line))) : null);
  });
  return items.length ? element("ul", { class: "places", "aria-label": app.words.source }, ...items) : "";
}

function code(text: string, app: App): HTMLElement {
  const lines = codeLines(text).join("\n");
  const button = copyButton(app.words.copyCode, app.words.copied, () => lines);
  return element("div", { class: "code" }, element("pre", { tabindex: "0" }, element("code", {}, lines)), button);
}

function footer(finding: Finding, app: App): HTMLElement {
  const { words } = app;
  const footer = element("p", { class: "quiet" }, `${words.rule} `, element("code", {}, plain(finding.rule)), `, ${words.cause}: ${finding.cause}`);
  if (finding.gain) {
    footer.append(`; ${words.gain}: `, sentence(plain(finding.gain.basis, 400)), ` (${finding.gain.confidence}: ${words.confidence[finding.gain.confidence] ?? ""})`);
  }
  return footer;
}
