// Sentences: what stands between backticks is a command, and no line ends between a number and its unit.

import { element } from "../dom/element";

const QUANTITY = /(\d) (%|ns|µs|ms|s|B|[KMGT]iB|W|[kMG]?B\/s|[kMGTPE]?FLOP(?:\/s)?)(?![\p{L}\p{N}_])/gu;
const SEPARATOR = /((?:::|[/\\_,(.])(?=[\p{L}\p{N}_]))/u;
const OPTION = /((?<= )-[\w-]{1,30})/;
const UNBROKEN = 12; // characters of a name that never ends a line in its middle

let opened = "PATH";

/** What commands in sentences say instead of `PATH`: the run as it was opened, as a word of a shell. */
export function commandsOf(path: string): void {
  opened = path;
}

/** What stands between backticks. No line ends within an option: `--trace`. */
export function command(words: string): HTMLElement {
  const told = words.startsWith("stepscope ") ? words.replace(/\b(?:RUN|PATH)\b/g, () => opened) : words;
  return element("code", {}, ...told.split(OPTION).map((part, index) => (index % 2 ? element("span", { class: "option" }, part) : part)));
}

/** A sentence as nodes. */
export function sentence(words: string): DocumentFragment {
  const made = document.createDocumentFragment();
  const parts = words.split("`");
  const paired = parts.length % 2 === 1;
  (paired ? parts : [words]).forEach((part, index) => {
    made.append(paired && index % 2 ? command(part) : unbroken(part));
  });
  return made;
}

/** The same words with no line end between a number and its unit. */
export function unbroken(words: string): string {
  return words.replace(QUANTITY, "$1\u00a0$2");
}

/** A long path or name, which may end a line after a separator rather than anywhere. */
export function breakable(words: string): DocumentFragment {
  const made = document.createDocumentFragment();
  if (words.length <= UNBROKEN) {
    made.append(words);
    return made;
  }
  words.split(SEPARATOR).forEach((part, index) => {
    if (part) made.append(part);
    if (index % 2) made.append(document.createElement("wbr"));
  });
  return made;
}
