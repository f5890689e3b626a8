// A view for each section of the document that has something to show, drawn from its blocks alone.

import { GROUPS, type App, type Cleanup, type Group, type View } from "../app";
import { drawBlocks } from "../blocks";
import type { Section } from "../document/types";
import { element } from "../dom/element";
import { plain } from "../format/format";

const IN_OVERVIEW = ["summary", "findings"]; // what the first view shows already

export function sectionViews(app: App): View[] {
  const sections = app.document.sections.filter((section) => section.blocks.length > 0);
  const rest = app.document.schema === "stepscope-report" ? sections.filter((section) => !IN_OVERVIEW.includes(section.name)) : sections.slice(1);
  return rest.map(viewOf);
}

function viewOf(section: Section): View {
  return {
    name: section.name,
    group: groupOf(section),
    title: (app) => app.words.say(plain(section.title)),
    draw: (host, app) => drawSection(host, section, app),
  };
}

function drawSection(host: HTMLElement, section: Section, app: App): Cleanup {
  host.append(element("h2", {}, app.words.say(plain(section.title))));
  return drawBlocks(host, section.blocks, app, section.name);
}

function groupOf(section: Section): Group {
  const group = section.group as Group;
  return GROUPS.includes(group) ? group : "overview";
}
