// Where the page stands, kept in the address after `#`, so that a link opens the same view and Back works.

/** In a notebook the page is the content of a frame: an address after `#` alone would lead to the notebook. */
const FRAME = location.protocol === "about:" ? location.href.split("#")[0]! : "";

export class State {
  private drawn: string | null = null;
  private readonly listeners = new Set<() => void>();

  constructor() {
    window.addEventListener("popstate", () => this.tell());
    window.addEventListener("hashchange", () => this.tell());
    if (FRAME) document.addEventListener("click", followInFrame);
  }

  get(name: string): string {
    return this.all().get(name) ?? "";
  }

  /**
   * Change entries; an empty value takes one away. `push` is a step that Back undoes, and listeners draw anew;
   * after `replace` the page shows already what the address says.
   */
  set(changes: Record<string, string>, how: "push" | "replace" = "push"): void {
    const address = this.address(changes);
    if (address === this.address({})) return;
    if (FRAME) {
      if (how === "push") location.hash = address;
      else location.replace(FRAME + address);
      if (how === "replace") this.drawn = location.hash;
      return;
    }
    if (how === "replace") {
      history.replaceState(null, "", address);
      return;
    }
    history.pushState(null, "", address);
    this.tell();
  }

  /** The address after a change, for a link. */
  address(changes: Record<string, string>): string {
    const all = this.all();
    for (const [name, value] of Object.entries(changes)) {
      if (value) all.set(name, value);
      else all.delete(name);
    }
    return `#${all.toString()}`;
  }

  onChange(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  private all(): URLSearchParams {
    return new URLSearchParams(location.hash.slice(1));
  }

  private tell(): void {
    if (FRAME && location.hash === this.drawn) return;
    this.drawn = null;
    for (const listener of this.listeners) listener();
  }
}

function followInFrame(event: MouseEvent): void {
  const address = event.target instanceof Element ? event.target.closest("a")?.getAttribute("href") : null;
  if (event.defaultPrevented || !address?.startsWith("#")) return;
  event.preventDefault();
  location.hash = address;
}
