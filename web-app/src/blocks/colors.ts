// Colors of parts: apart for people who see fewer colors, and the same part has the same color everywhere.

export const COLORS = 8; // --p0 to --p7 of the style sheet

const FIXED: Record<string, number> = {
  "data wait": 0, computing: 1, kernels: 1, operators: 1, fetching: 1, training: 2, blocked: 3,
  "Python and file I/O": 4, communication: 5, copies: 3, "serializing and sending": 4, "idle, out of order": 5, "waiting for a core": 6, "idle, queue full": COLORS - 1,
  neither: COLORS - 1, other: COLORS - 1, "device idle": COLORS - 1, end: COLORS - 1,
};

/** Which color each label takes: what has one of its own looks the same in every chart, as in render/bars.py. */
export function looks(labels: readonly string[]): number[] {
  const fixed = labels.map((label) => (Object.hasOwn(FIXED, label) ? FIXED[label] : undefined));
  const all = Array.from({ length: COLORS - 2 }, (_, at) => at + 1);
  const free = all.filter((look) => !fixed.includes(look));
  const rest = free.length ? free : all;
  let next = 0;
  return fixed.map((look) => look ?? rest[next++ % rest.length] ?? 1);
}

/** The value of a color of the style sheet, for a chart that is painted. */
export function color(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
