// How a table stands in the address: `KEY.q` its filter, `KEY.s` its order, `KEY.h` hidden columns, `KEY.w` the values that columns must have.

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

  /** Values that columns must have: how the table was come to. */
  get only(): ReadonlyMap<string, string> {
    return new Map(new URLSearchParams(this.state.get(`${this.key}.w`)));
  }

  /** The address without one of them. */
  without(column: string): string {
    const rest = new URLSearchParams([...this.only].filter(([name]) => name !== column));
    return this.state.address({ [`${this.key}.w`]: rest.toString() });
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
