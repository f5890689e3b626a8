// The list of views at the side, in groups.

import { GROUPS, type App, type View } from "../app";
import { element } from "../dom/element";

export function navigation(views: readonly View[], current: string, app: App): HTMLElement {
  const nav = element("nav", { "aria-label": app.words.views });
  for (const group of GROUPS) {
    const inside = views.filter((view) => view.group === group && !view.hidden);
    if (!inside.length) continue;
    const links = inside.map((view) => link(view, view.name === current, app));
    nav.append(element("h2", {}, app.words.groups[group]), element("ul", {}, ...links));
  }
  return nav;
}

function link(view: View, current: boolean, app: App): HTMLElement {
  const address = app.state.address({ view: view.name === "overview" ? "" : view.name, table: "", finding: "" });
  return element("li", {}, element("a", { href: address, "aria-current": current ? "page" : undefined }, view.title(app)));
}
