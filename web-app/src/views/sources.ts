// Where a value can be checked: the section that shows its analysis, else the table itself where a server has it.

import type { App } from "../app";

/** An address for `#…`, or nothing if neither is at hand. */
export function sourceAddress(analysis: string, app: App): string {
  const name = analysis.replaceAll("-", "_");
  for (const section of app.document.sections) {
    if (section.blocks.some((block) => block.kind === "table" && block.source?.replaceAll("-", "_") === name)) {
      return app.state.address({ view: section.name, table: name });
    }
  }
  return app.served ? app.state.address({ view: "tables", table: name }) : "";
}
