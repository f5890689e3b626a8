// How a flame graph stands in the address: `KEY.tree` which tree, `KEY.zoom` which node fills it, `KEY.find` the search.

import type { State } from "../state/state";

export class FlamePlace {
  constructor(
    private readonly state: State,
    private readonly key: string,
  ) {}

  get tree(): number {
    return Number(this.state.get(`${this.key}.tree`)) || 0;
  }

  set tree(tree: number) {
    this.state.set({ [`${this.key}.tree`]: tree ? String(tree) : "", [`${this.key}.zoom`]: "" });
  }

  get zoom(): string {
    return this.state.get(`${this.key}.zoom`);
  }

  set zoom(path: string) {
    this.state.set({ [`${this.key}.zoom`]: path });
  }

  get find(): string {
    return this.state.get(`${this.key}.find`);
  }

  set find(words: string) {
    this.state.set({ [`${this.key}.find`]: words }, "replace");
  }
}
