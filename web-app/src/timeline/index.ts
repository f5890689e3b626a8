// The timeline's face towards the rest of the page.

export { mountTimeline } from "./timeline";
export { showSince, showSteps, type Steps } from "./places";
export { showWindow, timeline } from "./view";
export type { Source, Window } from "./types";
