// Languages of the page: one file each.

import { en, type Words } from "./en";
import { zh } from "./zh";

export const LANGUAGES: Record<string, Words> = { en, zh };

/** The language asked for in the address, else what the browser prefers, else English. */
export function wordsFor(asked: string): { code: string; words: Words } {
  const wanted = [asked, ...navigator.languages.map((language) => language.slice(0, 2))];
  const code = wanted.find((one) => one in LANGUAGES) ?? "en";
  return { code, words: LANGUAGES[code] ?? en };
}
