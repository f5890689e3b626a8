// Colours of parts: apart for people who see fewer colours, and the same part has the same colour everywhere.

export const COLOURS = 8; // --p0 to --p7 of the style sheet

const FIXED: Record<string, number> = { "data wait": 0, other: COLOURS - 1 };

/** Which colour each label takes: waiting for data and the rest look the same in every chart. */
export function looks(labels: readonly string[]): number[] {
  let next = 0;
  return labels.map((label) => FIXED[label] ?? 1 + (next++ % (COLOURS - 2)));
}

/** The value of a colour of the style sheet, for a chart that is painted. */
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
