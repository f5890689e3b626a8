// The Markdown that pages of rules are written in: headings, paragraphs, lists, code; never markup.

import { element } from "../dom/element";
import { sentence } from "./words";

const ITEM = /^\s*[-*] /;

/** Draw a page; `linked` gives the address of another rule that is named as a link, or nothing. */
export function drawMarkdown(host: HTMLElement, text: string, linked: (rule: string) => string): void {
  const lines = text.split("\n");
  for (let at = 0; at < lines.length; ) {
    const line = lines[at] ?? "";
    const [from, until] = [at, endOf(lines, at)];
    at = until;
    if (!line.trim()) continue;
    if (line.startsWith("```")) host.append(element("pre", { tabindex: "0" }, element("code", {}, lines.slice(from + 1, until - 1).join("\n"))));
    else if (line.startsWith("#")) host.append(heading(line));
    else if (ITEM.test(line)) host.append(list(lines.slice(from, until), linked));
    else host.append(element("p", {}, inline(lines.slice(from, until).join(" "), linked)));
  }
}

/** The line after the block that begins at one. */
function endOf(lines: readonly string[], at: number): number {
  const first = lines[at] ?? "";
  if (first.startsWith("```")) {
    const close = lines.findIndex((line, place) => place > at && line.startsWith("```"));
    return close < 0 ? lines.length : close + 1;
  }
  if (!first.trim() || first.startsWith("#")) return at + 1;
  const end = lines.findIndex((line, place) => place > at && (!line.trim() || line.startsWith("#") || line.startsWith("```")));
  return end < 0 ? lines.length : end;
}

function heading(line: string): HTMLElement {
  const [, marks = "#", words = ""] = /^(#+)\s*(.*)$/.exec(line) ?? [];
  return element(marks.length === 1 ? "h1" : marks.length === 2 ? "h2" : "h3", {}, sentence(words));
}

function list(lines: readonly string[], linked: (rule: string) => string): HTMLElement {
  const items: string[] = [];
  for (const line of lines) {
    if (ITEM.test(line)) items.push(line.replace(ITEM, ""));
    else items[items.length - 1] += ` ${line.trim()}`;
  }
  return element("ul", { class: "points" }, ...items.map((item) => element("li", {}, inline(item, linked))));
}

/** Links to other rules lead there; of other links only the words stay, as their pages are elsewhere. */
function inline(text: string, linked: (rule: string) => string): DocumentFragment {
  const made = document.createDocumentFragment();
  let from = 0;
  for (const match of text.matchAll(/\[([^\]]+)\]\(([^)]+)\)/g)) {
    const [whole, words = "", target = ""] = match;
    const address = linked(/([\w-]+)\.md/.exec(target)?.[1] ?? "");
    made.append(sentence(text.slice(from, match.index)), address ? element("a", { href: address }, sentence(words)) : sentence(words));
    from = match.index + whole.length;
  }
  made.append(sentence(text.slice(from)));
  return made;
}
