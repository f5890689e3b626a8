// Terms of the glossary in words of the page: pointing at one, or reaching it by Tab, says what it means.

import { element, fill } from "../dom/element";
import type { Words } from "../words/en";
import glossary from "../words/glossary.json";
import { command, sentence, unbroken } from "./words";

interface Terms {
  /** By their names in the language, in lower case. */
  readonly meanings: ReadonlyMap<string, string>;
  readonly pattern: RegExp;
}

const SHORTEST = 2; // letters of a term: a sign of Chinese alone is a part of other words
const CJK = /\p{Script=Han}/u;
const FOUND = new Map<Words, Terms>();

/** The terms of a language, put together when first asked for. */
function termsOf(words: Words): Terms {
  const known = FOUND.get(words);
  if (known) return known;
  const meanings = new Map(Object.entries(glossary as Record<string, string>).map(([term, meaning]) => [words.say(term).toLowerCase(), words.say(meaning)]));
  const names = [...meanings.keys()].filter((name) => name.length >= SHORTEST).sort((one, other) => other.length - one.length);
  const pattern = new RegExp(names.map((name) => (CJK.test(name) ? quoted(name) : `(?<![\\p{L}\\p{N}_-])${quoted(name)}(?![\\p{L}\\p{N}_-])`)).join("|"), "giu");
  const made = { meanings, pattern };
  FOUND.set(words, made);
  return made;
}

function quoted(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

/** A text in which each term of the glossary can be asked for its meaning, the first time that it occurs. */
export function explained(text: string, words: Words): DocumentFragment {
  const made = document.createDocumentFragment();
  const told = new Set<string>();
  const parts = text.split("`");
  const paired = parts.length % 2 === 1;
  (paired ? parts : [text]).forEach((part, at) => made.append(paired && at % 2 ? command(part) : withTerms(part, told, termsOf(words))));
  return made;
}

function withTerms(text: string, told: Set<string>, terms: Terms): DocumentFragment {
  const made = document.createDocumentFragment();
  let from = 0;
  for (const match of text.matchAll(terms.pattern)) {
    const term = match[0].toLowerCase();
    if (told.has(term)) continue;
    told.add(term);
    made.append(unbroken(text.slice(from, match.index)), termOf(match[0], terms.meanings.get(term) ?? ""));
    from = match.index + match[0].length;
  }
  made.append(unbroken(text.slice(from)));
  return made;
}

/** A label of the page, whose English name the glossary may have. */
export function explainedLabel(label: string, shown: string, words: Words): Node | string {
  const meaning = termsOf(words).meanings.get(words.say(label).toLowerCase());
  return meaning ? termOf(shown, meaning) : unbroken(shown);
}

function termOf(words: string, meaning: string): HTMLElement {
  const made = element("span", { class: "term", tabindex: "0" }, words);
  const show = () => showHelp(made, meaning);
  made.addEventListener("mouseenter", show);
  made.addEventListener("focus", show);
  made.addEventListener("mouseleave", hideHelp);
  made.addEventListener("blur", hideHelp);
  made.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hideHelp();
  });
  return made;
}

let help: HTMLElement | null = null;
const MARGIN = 8; // px between the help and the edges of the page

function showHelp(of: HTMLElement, meaning: string): void {
  hideHelp();
  help = element("div", { class: "help-tip", role: "tooltip", id: "help-tip" });
  fill(help, sentence(meaning));
  document.body.append(help);
  of.setAttribute("aria-describedby", "help-tip");
  const at = of.getBoundingClientRect();
  const { offsetWidth: wide, offsetHeight: high } = help;
  help.style.left = `${Math.max(MARGIN, Math.min(at.left, innerWidth - wide - MARGIN))}px`;
  help.style.top = `${at.bottom + 4 + high > innerHeight ? at.top - high - 4 : at.bottom + 4}px`;
  document.addEventListener("scroll", hideHelp, { capture: true, once: true });
  window.addEventListener("hashchange", hideHelp, { once: true });
}

function hideHelp(): void {
  help?.remove();
  help = null;
  document.querySelector("[aria-describedby='help-tip']")?.removeAttribute("aria-describedby");
}
