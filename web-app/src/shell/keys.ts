// The page by keyboard.

import type { App } from "../app";
import { showDialog } from "../dom/dialog";
import { element } from "../dom/element";
import { nextTheme } from "./theme";

const KEYS = (app: App): [string, string][] => [
  ["j, k, ↓, ↑", app.words.keys.move],
  ["[, ]", app.words.keys.views],
  ["/", app.words.keys.search],
  ["Enter", app.words.keys.open],
  ["t", app.words.keys.theme],
  ["?", app.words.keys.help],
  ["Esc", app.words.keys.close],
];

export function listenToKeys(app: () => App): void {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLTextAreaElement || event.target instanceof HTMLSelectElement;
    if (event.key === "Escape") return escape(event, typing);
    if (typing) return;
    const done = act(event.key, app());
    if (done) event.preventDefault();
  });
}

function act(key: string, app: App): boolean {
  switch (key) {
    case "/":
      document.getElementById("search")?.focus();
      return true;
    case "?":
      showHelp(app);
      return true;
    case "t":
      nextTheme(app.state);
      return true;
    case "j":
    case "k":
      return move(key === "j" ? 1 : -1);
    case "ArrowDown":
    case "ArrowUp":
      return marked() ? move(key === "ArrowDown" ? 1 : -1) : false;
    case "[":
    case "]":
      return otherView(key === "]" ? 1 : -1);
    case "Enter":
      return open();
    default:
      return false;
  }
}

function escape(event: KeyboardEvent, typing: boolean): void {
  if (typing) (event.target as HTMLElement).blur();
  marked()?.classList.remove("marked");
}

function marked(): HTMLElement | null {
  return document.querySelector<HTMLElement>("main .marked");
}

/** Mark the next finding or row. */
function move(by: number): boolean {
  const stops = [...document.querySelectorAll<HTMLElement>("main .finding, main tbody tr, main .listing li, main .tabulator-row")];
  if (!stops.length) return false;
  const now = marked();
  const at = now ? stops.indexOf(now) : by > 0 ? -1 : 0;
  const next = stops[(at + by + stops.length) % stops.length];
  now?.classList.remove("marked");
  if (!now?.closest(".tree")) now?.removeAttribute("tabindex"); // rows of a tree keep theirs
  next?.classList.add("marked");
  if (!next?.closest(".tree")) next?.setAttribute("tabindex", "-1");
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
  return true;
}

function open(): boolean {
  const link = marked()?.querySelector<HTMLElement>("a, .when, .down");
  if (!link || document.activeElement !== marked()) return false;
  link.click();
  return true;
}

function otherView(by: number): boolean {
  const links = [...document.querySelectorAll<HTMLAnchorElement>("nav a")];
  const at = links.findIndex((link) => link.getAttribute("aria-current"));
  links[(Math.max(at, 0) + by + links.length) % links.length]?.click();
  return true;
}

export function showHelp(app: App): void {
  const rows = KEYS(app).map(([keys, what]) => element("div", {}, element("dt", {}, ...keys.split(", ").map((key) => element("kbd", {}, key))), element("dd", {}, what)));
  showDialog(app.words.help, app.words.close, element("h2", {}, app.words.help), element("dl", { class: "keys" }, ...rows));
}
