// How a table stands in the address: `KEY.q` its filter, `KEY.s` its order, `KEY.h` hidden columns.

import type { State } from "../state/state";
import type { Sort } from "./plain_table";

export class TablePlace {
  constructor(
    private readonly state: State,
    private readonly key: string,
  ) {}

  get filter(): string {
    return this.state.get(`${this.key}.q`);
  }

  set filter(filter: string) {
    this.state.set({ [`${this.key}.q`]: filter }, "replace");
  }

  get sort(): Sort | null {
    const [, sign = "", column = ""] = /^([+-])(.+)$/.exec(this.state.get(`${this.key}.s`)) ?? [];
    return column ? { column, descending: sign === "-" } : null;
  }

  set sort(sort: Sort | null) {
    this.state.set({ [`${this.key}.s`]: sort ? `${sort.descending ? "-" : "+"}${sort.column}` : "" }, "replace");
  }

  get hidden(): ReadonlySet<string> {
    return new Set(this.state.get(`${this.key}.h`).split("|").filter(Boolean));
  }

  set hidden(hidden: ReadonlySet<string>) {
    this.state.set({ [`${this.key}.h`]: [...hidden].join("|") }, "replace");
  }
}
