// The search: how many spans have a text in their name, and going from one to the next.

import { element, fill } from "../dom/element";
import type { Found, Ref, Source } from "./types";
import type { TimelineWords } from "./words";

const PATIENCE = 200; // ms

export interface SearchBox {
  host: HTMLElement;
  focus(): void;
}

/** `from`: where to look from; `found`: what to do with a hit; `marked`: what is in the names of hits. */
export function searchBox(source: Source, words: TimelineWords, from: () => Ref | number, found: (found: Found) => void, marked: (text: string) => void): SearchBox {
  const input = element("input", { type: "search", placeholder: words.search, "aria-label": words.search, spellcheck: "false" });
  const told = element("span", { class: "occurrences", role: "status" });
  let timer = 0;
  let asked = 0;
  let last: Ref | null = null;
  const go = async (backwards: boolean, stay: boolean) => {
    const text = input.value.trim();
    const mine = ++asked;
    if (!text) {
      marked("");
      return fill(told);
    }
    try {
      const answer = await source.find(text, stay ? from() : (last ?? from()), backwards);
      if (mine !== asked) return;
      last = answer.hit;
      marked(answer.total ? text.toLowerCase() : "");
      fill(told, answer.total ? `${answer.position.toLocaleString("en")} ${words.of} ${answer.total.toLocaleString("en")}` : words.none);
      told.title = answer.names.map(([name, count]) => `${count.toLocaleString("en")} × ${name}`).join("\n");
      if (answer.hit) found(answer);
    } catch (error) {
      if (mine === asked) fill(told, `${words.failed}: ${String(error)}`);
    }
  };
  input.addEventListener("input", () => {
    last = null;
    clearTimeout(timer);
    timer = window.setTimeout(() => void go(false, true), PATIENCE);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") {
      clearTimeout(timer);
      void go(event.shiftKey, last === null);
    } else if (event.key === "Escape" && input.value) {
      input.value = "";
      input.dispatchEvent(new Event("input"));
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });
  const step = (label: string, sign: string, backwards: boolean) => element("button", { type: "button", class: "small", title: label, "aria-label": label, onclick: () => void go(backwards, last === null) }, sign);
  const host = element("span", { class: "find" }, input, step(words.previous, "‹", true), step(words.next, "›", false), told);
  return { host, focus: () => input.focus() };
}
