// How a flame graph stands in the address: `KEY.tree` which tree, `KEY.zoom` which node fills it, `KEY.find` the search, `KEY.idle` idle frames.

import type { State } from "../state/state";

export class FlamePlace {
  constructor(
    private readonly state: State,
    private readonly key: string,
  ) {}

  /** `first`: where the address names none. */
  tree(first: number): number {
    const named = this.state.get(`${this.key}.tree`);
    return named ? Number(named) || 0 : first;
  }

  choose(tree: number): void {
    this.state.set({ [`${this.key}.tree`]: String(tree), [`${this.key}.zoom`]: "" });
  }

  get zoom(): string {
    return this.state.get(`${this.key}.zoom`);
  }

  set zoom(path: string) {
    this.state.set({ [`${this.key}.zoom`]: path });
  }

  /** Whether idle frames are shown. */
  get idle(): boolean {
    return this.state.get(`${this.key}.idle`) === "1";
  }

  set idle(shown: boolean) {
    this.state.set({ [`${this.key}.idle`]: shown ? "1" : "", [`${this.key}.zoom`]: "" });
  }

  get find(): string {
    return this.state.get(`${this.key}.find`);
  }

  set find(words: string) {
    this.state.set({ [`${this.key}.find`]: words }, "replace");
  }
}
