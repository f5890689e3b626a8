// The start: data from the file itself or from the server, then the page.

import "./styles/base.css";
import "./styles/shell.css";
import "./styles/blocks.css";
import "./styles/tables.css";
import "./flame/flame.css";
import "./styles/print.css";
import type { App, View } from "./app";
import { commandsOf } from "./blocks/words";
import type { Document } from "./document/types";
import { element } from "./dom/element";
import { listenToKeys } from "./shell/keys";
import { listenToPrinting } from "./shell/print";
import { follow, tellAgain } from "./shell/live";
import { Shell } from "./shell/shell";
import { besides } from "./shell/switch";
import { followSystem, showTheme, wantedTheme } from "./shell/theme";
import { State } from "./state/state";
import { pathOf } from "./tables/deeper";
import { VIEWS } from "./views";
import { sectionViews } from "./views/sections";
import { loadCatalog, wordsFor } from "./words";

const BESIDE = besides();
const STATE = new State();
const RUN = runIn(STATE); // another one is another page

async function start(): Promise<void> {
  const host = document.getElementById("app");
  if (!host) return;
  const state = STATE;
  showTheme(wantedTheme(state));
  followSystem(state);
  const inside = document.getElementById("data")?.textContent;
  if (!inside) host.append(element("p", { class: "reading", role: "status" }, wordsFor(state.get("lang")).words.reading));
  const catalog = loadCatalog(wordsFor(state.get("lang")).code);
  const { document: data, whole } = inside ? { document: JSON.parse(inside) as Document, whole: true } : await first(state);
  await catalog;
  const shell = new Shell(host);
  let app = appOf(data, !inside && isRun(data), state, whole);
  let views = viewsOf(app);
  const draw = () => {
    if (runIn(state) !== RUN) return location.reload();
    app = appOf(app.document, app.served, state, app.whole);
    views = viewsOf(app);
    if (!app.words.loaded) return void loadCatalog(wordsFor(state.get("lang")).code).then(draw);
    showTheme(wantedTheme(state));
    shell.draw(app, views);
    tellAgain(app);
  };
  state.onChange(draw);
  listenToKeys(() => app);
  listenToPrinting(() => app, () => views);
  draw();
  if (!whole) {
    await painted(); // the server makes the rest when it is asked for: not before the first screen is seen
    app = appOf(await fetchJson<Document>(at("api/report")), true, state);
    draw();
  }
  document.documentElement.dataset["ready"] = "yes";
  if (app.served) {
    await follow(() => app, (newer) => {
      app = appOf(newer, true, state);
      draw();
    });
  }
}

/** What the first screen shows, as soon as the server has it; the whole document where the address names another view. */
async function first(state: State): Promise<{ document: Document; whole: boolean }> {
  const elsewhere = !["", "overview"].includes(state.get("view"));
  return elsewhere ? { document: await fetchJson<Document>(at("api/report")), whole: true } : await fetchJson(at("api/first"));
}

/** Once the browser has shown what was drawn; in a tab that is not shown, soon. */
function painted(): Promise<void> {
  return new Promise((done) => {
    requestAnimationFrame(() => setTimeout(done));
    setTimeout(done, 100);
  });
}

function appOf(data: Document, served: boolean, state: State, whole = true): App {
  commandsOf(pathOf(data));
  const { code, words } = wordsFor(state.get("lang"));
  document.documentElement.lang = code === "zh" ? "zh-CN" : code;
  return { document: data, served, whole, state, words, at, beside: BESIDE, fetchJson: (path) => fetchJson(at(path)) };
}

function isRun(data: Document): boolean {
  return data.schema === "stepscope-report";
}

/** The run of those beside that the address names; nothing for what the page shows first. */
function runIn(state: State): string {
  return BESIDE.find((one) => one.key === state.get("run"))?.key ?? "";
}

function at(path: string): string {
  return RUN ? `${RUN}/${path}` : path;
}

function viewsOf(app: App): View[] {
  if (!app.whole) return VIEWS.slice(0, 1);
  const [first, ...rest] = VIEWS.filter((view) => view.available?.(app) ?? true);
  return [...(first ? [first] : []), ...sectionViews(app), ...rest];
}

async function fetchJson<T>(path: string): Promise<T> {
  const answer = await fetch(path, { headers: { Accept: "application/json" }, credentials: "same-origin" });
  if (!answer.ok) throw new Error(await told(answer));
  return (await answer.json()) as T;
}

/** Why there is no answer, in the words of the server where it has some. */
async function told(answer: Response): Promise<string> {
  const text = await answer.text();
  try {
    return String((JSON.parse(text) as { error: unknown }).error);
  } catch {
    return `${answer.status} ${text.slice(0, 400)}`;
  }
}

start().catch((error: unknown) => {
  document.querySelector(".reading")?.remove();
  document.body.append(element("p", { class: "failure", role: "alert" }, error instanceof Error ? error.message : String(error)));
});
