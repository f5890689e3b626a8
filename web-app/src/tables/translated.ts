// Tables of a report in the language of the page: names of the user's code, of operators and of kernels stay as they are.

import type { TableBlock } from "../document/types";
import type { Words } from "../words/en";

const NAMES = new Set(["name", "operator", "kernel", "module", "file", "function", "code", "line", "launched by", "calls into", "the host was in", "the host was mostly in", "ended by", "command", "rule"]);

export function translated(block: TableBlock, words: Words): TableBlock & { told?: (text: string, at: number) => string } {
  if (!words.catalog) return block;
  return { ...block, told: (text, at) => (NAMES.has(block.columns[at]?.name ?? "") ? text : words.say(text)) };
}
