// The page of a rule: what it finds, why that costs time, what to do, when it is wrong.

import type { App, View } from "../app";
import { drawMarkdown } from "../blocks/markdown";
import { element } from "../dom/element";
import pages from "../words/rules.json";

const PAGES = pages as Record<string, string>;

export function hasRulePage(rule: string): boolean {
  return Object.hasOwn(PAGES, rule);
}

/** Not in the navigation: findings and checks lead to it. */
export const rulePage: View = {
  name: "rule",
  group: "overview",
  hidden: true,
  title: (app) => app.state.get("rule") || app.words.rules,
  draw: (host, app) => {
    const rule = app.state.get("rule");
    host.append(element("p", { class: "back" }, element("a", { href: app.state.address({ view: "", rule: "" }) }, `← ${app.words.overview}`)));
    if (hasRulePage(rule)) drawMarkdown(host, app.words.catalog?.translations.rules[rule] ?? PAGES[rule] ?? "", (name) => ruleAddress(name, app));
    else host.append(element("h2", {}, app.words.rules), element("ul", {}, ...Object.keys(PAGES).map((name) => element("li", {}, element("a", { href: ruleAddress(name, app) }, name)))));
  },
};

/** Empty for a rule without a page. */
export function ruleAddress(rule: string, app: App): string {
  return hasRulePage(rule) ? app.state.address({ view: "rule", rule, finding: "" }) : "";
}
