// Where the page stands, kept in the address after `#`, so that a link opens the same view and Back works.

/** In a notebook the page is the content of a frame: an address after `#` alone would lead to the notebook. */
const FRAME = location.protocol === "about:" ? location.href.split("#")[0]! : "";
const REST = 120; // ms: browsers take only some changes of the history in a second

export class State {
  private drawn: string | null = null;
  private told = location.hash;
  private readonly listeners = new Set<() => void>();
  private scrolled: () => number = () => 0;

  constructor() {
    window.addEventListener("popstate", () => this.tell());
    window.addEventListener("hashchange", () => this.tell());
    if (FRAME) document.addEventListener("click", followInFrame);
    else document.addEventListener("click", () => this.remember(), { capture: true }); // before a link is followed
  }

  /** Keep with each step of the history how far `box` was scrolled. */
  keepScroll(box: HTMLElement): void {
    let resting = 0;
    this.scrolled = () => box.scrollTop;
    box.addEventListener("scroll", () => {
      clearTimeout(resting);
      resting = window.setTimeout(() => this.remember(), REST);
    });
  }

  /** How far the page was scrolled when it was left for another; null for a place that was never left. */
  get scroll(): number | null {
    const kept = FRAME ? null : (history.state as { scroll?: number } | null)?.scroll;
    return typeof kept === "number" ? kept : null;
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
      history.replaceState(history.state, "", address);
      this.told = location.hash;
      return;
    }
    this.remember();
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

  private remember(): void {
    if (!FRAME) history.replaceState({ scroll: Math.round(this.scrolled()) }, "");
  }

  /** A link fires two events for one change. */
  private tell(): void {
    if (FRAME && location.hash === this.drawn) return;
    if (!FRAME && location.hash === this.told) return;
    this.told = location.hash;
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
