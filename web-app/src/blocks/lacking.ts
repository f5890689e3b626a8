// What a part of the page lacks, and what to record to have it.

import { plain } from "../format/format";
import type { Words } from "../words/en";
import { sentence } from "./words";

export function lacking({ what, how }: { what: string; how: string }, words: Words): DocumentFragment {
  const made = document.createDocumentFragment();
  made.append(`${words.missing}: ${words.say(plain(what, 400))}. `, sentence(words.say(plain(how, 400))));
  return made;
}
