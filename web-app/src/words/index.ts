// Languages of the page: a file each with the page's own words, and a catalog of what reports say.

import { unpacked } from "../document/packed";
import { Catalog, type Translations } from "./catalog";
import { en, type Words } from "./en";
import { zh } from "./zh";

export const LANGUAGES: Record<string, Words> = { en, zh };

/** Get the catalog of a language, once: from the file that the page is, else from the server. Without it the report stays English. */
export async function loadCatalog(code: string): Promise<void> {
  const words = LANGUAGES[code];
  if (!words || words.loaded) return;
  const found = await translations(code).catch(() => null);
  const catalog = new Catalog(found ?? { messages: {}, rules: {} });
  LANGUAGES[code] = { ...words, loaded: true, catalog, say: (text) => catalog.say(text) };
}

async function translations(code: string): Promise<Translations | null> {
  const inside = await unpacked<Translations>(`words-${code}`);
  if (inside || document.getElementById("data")) return inside;
  const answer = await fetch(`static/${code}.json`, { credentials: "same-origin" });
  return answer.ok ? ((await answer.json()) as Translations) : null;
}

/** The language asked for in the address, else what the browser prefers, else English. */
export function wordsFor(asked: string): { code: string; words: Words } {
  const wanted = [asked, ...navigator.languages.map((language) => language.slice(0, 2))];
  const code = wanted.find((one) => one in LANGUAGES) ?? "en";
  return { code, words: LANGUAGES[code] ?? en };
}
