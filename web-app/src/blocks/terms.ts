// Terms of the glossary in words of the page: pointing at one, or reaching it by Tab, says what it means.

import { element, fill } from "../dom/element";
import glossary from "../words/glossary.json";
import { sentence, unbroken } from "./words";

const MEANINGS = new Map(Object.entries(glossary as Record<string, string>).map(([term, meaning]) => [term.toLowerCase(), meaning]));
const PATTERN = new RegExp(`(?<![\\p{L}\\p{N}_-])(${[...MEANINGS.keys()].sort((one, other) => other.length - one.length).map((term) => term.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|")})(?![\\p{L}\\p{N}_-])`, "giu");

/** Words in which each term of the glossary can be asked for its meaning, the first time that it occurs. */
export function explained(words: string): DocumentFragment {
  const made = document.createDocumentFragment();
  const told = new Set<string>();
  const parts = words.split("`");
  const paired = parts.length % 2 === 1;
  (paired ? parts : [words]).forEach((part, at) => made.append(paired && at % 2 ? element("code", {}, part) : withTerms(part, told)));
  return made;
}

function withTerms(words: string, told: Set<string>): DocumentFragment {
  const made = document.createDocumentFragment();
  let from = 0;
  for (const match of words.matchAll(PATTERN)) {
    const term = match[0].toLowerCase();
    if (told.has(term)) continue;
    told.add(term);
    made.append(unbroken(words.slice(from, match.index)), termOf(match[0], MEANINGS.get(term) ?? ""));
    from = match.index + match[0].length;
  }
  made.append(unbroken(words.slice(from)));
  return made;
}

/** A label of the page, whose English name the glossary may have. */
export function explainedLabel(label: string, shown: string): Node | string {
  const meaning = MEANINGS.get(label.toLowerCase());
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
