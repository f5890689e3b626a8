// The timeline's face towards the rest of the page.

export { mountTimeline } from "./timeline";
export { showWindow, timeline } from "./view";
export type { Source, Window } from "./types";
