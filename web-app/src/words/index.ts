// Languages of the page: one file each.

import { en, type Words } from "./en";
import { zh } from "./zh";

export const LANGUAGES: Record<string, Words> = { en, zh };

/** A title, heading or label of ours in the language of the page. One that nobody has translated yet stays English. */
export function named(text: string, words: Words): string {
  const whole = Object.hasOwn(words.titles, text) ? words.titles[text] : undefined;
  if (whole) return whole;
  for (const [pattern, translated] of Object.entries(words.titles)) {
    const [before = "", after] = pattern.split("*");
    if (after !== undefined && text.length > before.length + after.length && text.startsWith(before) && text.endsWith(after)) {
      return translated.replace("*", text.slice(before.length, text.length - after.length));
    }
  }
  return text;
}

/** The language asked for in the address, else what the browser prefers, else English. */
export function wordsFor(asked: string): { code: string; words: Words } {
  const wanted = [asked, ...navigator.languages.map((language) => language.slice(0, 2))];
  const code = wanted.find((one) => one in LANGUAGES) ?? "en";
  return { code, words: LANGUAGES[code] ?? en };
}
