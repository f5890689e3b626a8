// What stands above a table: its name, a filter, columns to choose, copying.

import type { App } from "../app";
import { copyButton } from "../dom/copy";
import { element } from "../dom/element";
import { counted, plain, quantity } from "../format/format";
import { headingOf, type Model } from "./model";

export interface Tools {
  readonly bar: HTMLElement;
  /** Say how many rows there are, and how many of them are shown. */
  count(shown: number): void;
}

export interface Wishes {
  filter: string;
  hidden: ReadonlySet<string>;
  onFilter(filter: string): void;
  onHide(hidden: ReadonlySet<string>): void;
  csv(): string;
  markdown(): string;
}

export function tools(model: Model, app: App, wishes: Wishes, more: readonly Node[] = []): Tools {
  const { words } = app;
  const name = words.say(plain(model.title)) || words.analysis;
  const count = element("span", { class: "count", role: "status" });
  const filter = element("input", { type: "search", class: "filter", placeholder: words.filter, "aria-label": `${words.filter}: ${name}`, value: wishes.filter });
  filter.addEventListener("input", () => wishes.onFilter(filter.value));
  const bar = element(
    "div",
    { class: "tools" },
    element("span", { class: "name" }, model.title ? name : ""),
    count,
    filter,
    columns(model, app, wishes),
    copyButton("CSV", words.copied, () => wishes.csv()),
    copyButton("Markdown", words.copied, () => wishes.markdown()),
    ...more,
  );
  return {
    bar,
    count: (shown) => {
      const all = model.rows.length;
      const whole = counted(all, words.row, words.rows);
      count.textContent = shown === all ? whole : `${quantity(shown, "count")} ${words.of} ${whole}`;
    },
  };
}

function columns(model: Model, app: App, wishes: Wishes): HTMLElement {
  const hidden = new Set(wishes.hidden);
  const boxes = model.columns.map((column, at) => {
    const box = element("input", { type: "checkbox", checked: !hidden.has(column.name) });
    box.addEventListener("change", () => {
      if (box.checked) hidden.delete(column.name);
      else hidden.add(column.name);
      wishes.onHide(new Set(hidden));
    });
    return element("label", { title: app.words.say(column.meaning ?? "") }, box, " ", headingOf(model, at, app.words));
  });
  return element("details", { class: "columns" }, element("summary", { class: "small" }, app.words.columns), element("div", {}, ...boxes));
}
