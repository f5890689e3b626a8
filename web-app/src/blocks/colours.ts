// Colours of parts: apart for people who see fewer colours, and the same part has the same colour everywhere.

export const COLOURS = 8; // --p0 to --p7 of the style sheet

const FIXED: Record<string, number> = {
  "data wait": 0, "waiting for a batch": 0, computing: 1, fetching: 1, training: 2, blocked: 3,
  "serialising and sending": 4, starved: 5, "waiting for a core": 6, ahead: COLOURS - 1, neither: COLOURS - 1, other: COLOURS - 1,
};

/** Which colour each label takes: what has one of its own looks the same in every chart, as in render/bars.py. */
export function looks(labels: readonly string[]): number[] {
  let next = 0;
  return labels.map((label) => (Object.hasOwn(FIXED, label) ? FIXED[label] : undefined) ?? 1 + (next++ % (COLOURS - 2)));
}

/** The value of a colour of the style sheet, for a chart that is painted. */
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
