// The frame of the page: the bar above, the views at the side, and the view that the address names.

import type { App, Cleanup, View } from "../app";
import { element, fill } from "../dom/element";
import { plain } from "../format/format";
import { LANGUAGES } from "../words";
import { showHelp } from "./keys";
import { navigation } from "./navigation";
import { searchBox } from "./search";
import { showSettings } from "./settings";
import { switchBetween } from "./switch";
import { nextTheme } from "./theme";

export class Shell {
  private readonly main = element("main", { id: "content", tabindex: "-1" });
  private readonly side = element("div", { class: "side" });
  private readonly top = element("header", { class: "top" });
  private cleanup: Cleanup | void = undefined;
  private current = "";
  private shown = ""; // the finding that was brought into sight

  constructor(host: HTMLElement) {
    fill(host, this.top, element("div", { class: "body" }, this.side, this.main));
  }

  /** Draw everything for an app: at the start, after other data came, in another language. */
  draw(app: App, views: readonly View[]): void {
    if (!this.current) app.state.keepScroll(this.main);
    const view = views.find((one) => one.name === (app.state.get("view") || "overview")) ?? views[0];
    if (!view) return;
    fill(this.top, ...bar(app, views, () => this.draw(app, views)));
    fill(this.side, sideOf(views, view.name, app));
    this.cleanup?.();
    const place = app.state.scroll ?? (this.current === view.name ? this.main.scrollTop : 0);
    const back = app.state.scroll !== null;
    fill(this.main);
    this.main.dataset["view"] = view.name;
    this.cleanup = view.draw(this.main, app);
    this.main.scrollTop = place;
    if (this.current && this.current !== view.name) this.main.focus({ preventScroll: true });
    this.current = view.name;
    document.title = `${view.title(app)} – ${subject(app)} – stepscope`;
    if (!back) {
      showMentioned(this.main, app);
      showFinding(this.main, app, this.shown);
    }
    this.shown = app.state.get("finding");
  }
}

function bar(app: App, views: readonly View[], again: () => void): Node[] {
  const { words, state } = app;
  const language = element("select", { "aria-label": words.languages }, ...Object.entries(LANGUAGES).map(([code, one]) => element("option", { value: code, selected: one === words }, one.language)));
  language.addEventListener("change", () => state.set({ lang: language.value }));
  return [
    element("a", { class: "skip", href: "#content", onclick: (event) => { event.preventDefault(); document.getElementById("content")?.focus(); } }, words.skip),
    element("span", { class: "brand" }, "stepscope"),
    ...[switchBetween(app)].filter((one) => one !== null),
    element("span", { class: "subject", title: subject(app) }, `${kindOf(app)} `, element("code", {}, element("bdi", { dir: "ltr" }, subject(app)))),
    element("span", { class: "live", role: "status" }),
    searchBox(app, views),
    language,
    element("button", { type: "button", class: "small", title: `${words.theme} ( t )`, "aria-label": words.theme, onclick: () => nextTheme(state) }, "◐"),
    element("button", { type: "button", class: "small", title: words.settings, "aria-label": words.settings, onclick: () => showSettings(app, again) }, "⚙"),
    element("button", { type: "button", class: "small help", title: `${words.help} ( ? )`, "aria-label": words.help, onclick: () => showHelp(app) }, "?"),
  ];
}

function kindOf(app: App): string {
  if (app.document.schema === "stepscope-report") return app.words.reportOf;
  return app.document.runs ? app.words.runsIn : app.words.comparisonOf;
}

function subject(app: App): string {
  return plain(app.document.schema === "stepscope-report" ? app.document.run.path : app.document.subject, 200);
}

/** The navigation; on a narrow screen it is folded. */
function sideOf(views: readonly View[], current: string, app: App): HTMLElement {
  const nav = navigation(views, current, app);
  const chosen = views.find((view) => view.name === current);
  const folded = element("details", { class: "folded" }, element("summary", {}, `☰ ${chosen?.title(app) ?? ""}`));
  if (!matchMedia("(max-width: 52rem)").matches) return nav;
  folded.append(nav);
  return folded;
}

/** Bring the finding that the address names into sight. */
function showFinding(main: HTMLElement, app: App, shown: string): void {
  const name = app.state.get("finding");
  if (!name) return;
  const card = main.querySelector<HTMLElement>(`[data-finding="${CSS.escape(name)}"]`);
  card?.classList.add("marked");
  if (name !== shown) card?.scrollIntoView({ block: "start" });
}

/** Bring the table that the address names into sight. */
function showMentioned(main: HTMLElement, app: App): void {
  const name = app.state.get("table");
  if (!name || app.state.get("view") === "tables") return;
  for (const box of main.querySelectorAll<HTMLElement>("[data-source]")) {
    if (box.dataset["source"]?.replaceAll("-", "_") !== name) continue;
    box.classList.add("mentioned");
    box.scrollIntoView({ block: "start" });
    return;
  }
}
