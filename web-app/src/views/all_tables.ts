// Every analysis and every recorded table, with a search; one that is opened shows all its rows.

import type { App, Cleanup, View } from "../app";
import type { Cell, Column } from "../document/types";
import { element, fill } from "../dom/element";
import { plain, quantity } from "../format/format";
import type { Since } from "../tables/moments";
import { tableView } from "../tables/view";
import { lacking } from "../blocks/lacking";
import { sentence } from "../blocks/words";

interface Listed {
  name: string;
  row: string;
  kind: "analysis" | "recorded";
}

interface Loaded {
  name: string;
  page: string;
  columns: Column[];
  rows: Cell[][];
  /** All rows there are; more than came are too many for a page. */
  height: number;
  /** The moment that its times count from, where they are those of the timeline. */
  began: string | null;
  clock: Since["clock"] | null;
  missing: { what: string; how: string } | null;
}

export const allTables: View = {
  name: "tables",
  group: "tables",
  available: (app) => app.served,
  title: (app) => app.words.allTables,
  draw: (host, app) => {
    const name = app.state.get("table");
    return name ? drawOne(host, name, app) : drawList(host, app);
  },
};

function drawList(host: HTMLElement, app: App): Cleanup {
  const { words } = app;
  let gone = false;
  const body = element("div", {}, words.loading);
  const search = element("input", { type: "search", class: "wide-filter", placeholder: words.searchTables, "aria-label": words.searchTables });
  host.append(element("h2", {}, words.allTables), element("p", { class: "quiet" }, words.allTablesHint), search, body);
  app.fetchJson<Listed[]>("api/tables").then(
    (listed) => {
      if (gone) return;
      const draw = () => fill(body, list(listed, search.value, app));
      search.addEventListener("input", draw);
      draw();
    },
    (error: unknown) => fill(body, `${words.failed}: ${String(error)}`),
  );
  return () => void (gone = true);
}

function list(listed: readonly Listed[], wanted: string, app: App): HTMLElement {
  const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
  const found = listed.filter((one) => words.every((word) => `${one.name} ${app.words.say(one.row)}`.toLowerCase().includes(word)));
  if (!found.length) return element("p", {}, app.words.noHits);
  const rows = found.map((one) =>
    element("li", {}, element("a", { href: app.state.address({ view: "tables", table: one.name }) }, one.name), element("span", {}, sentence(app.words.say(one.row))), one.kind === "recorded" ? element("em", {}, app.words.recorded) : null),
  );
  return element("ul", { class: "listing" }, ...rows);
}

function drawOne(host: HTMLElement, name: string, app: App): Cleanup {
  const { words } = app;
  const box = element("div", { class: "one-table" }, words.loading);
  let clean: Cleanup | undefined;
  let gone = false;
  host.append(element("p", { class: "back" }, element("a", { href: app.state.address({ view: "tables", table: "" }) }, `← ${words.allTables}`)), element("h2", {}, plain(name)), box);
  app.fetchJson<Loaded>(`api/tables/${encodeURIComponent(name)}`).then(
    (loaded) => {
      if (gone) return;
      fill(box);
      if (loaded.missing) {
        box.append(element("p", {}, lacking(loaded.missing, words)));
        return;
      }
      box.append(element("p", { class: "quiet page" }, sentence(words.say(loaded.page))));
      if (loaded.height > loaded.rows.length) {
        box.append(element("p", {}, `${words.firstRows}: ${quantity(loaded.rows.length, "count")} ${words.of} ${quantity(loaded.height, "count")}. `, sentence(`\`stepscope show ${name} PATH\``)));
      }
      clean = tableView(box, { title: "", raw: true, columns: loaded.columns, rows: loaded.rows }, app, `t.${name}`, { name, since: loaded.began !== null && loaded.clock ? { began: loaded.began, clock: loaded.clock } : null });
    },
    (error: unknown) => fill(box, `${words.failed}: ${String(error)}`),
  );
  return () => {
    gone = true;
    clean?.();
  };
}
