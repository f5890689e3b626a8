// Colors of categories: fixed, apart for people who see fewer colors (Okabe and Ito), and readable in light and dark.

import type { Category } from "./types";

/** Fill in light and dark; text on it is black or white, whichever is easier to read. */
const FILLS: Record<Category, readonly [string, string]> = {
  step: ["#5b6b7d", "#8796a8"],
  operator: ["#3f8fc9", "#4a9ad6"],
  annotation: ["#b8c0ca", "#59636f"],
  runtime: ["#c77fae", "#c585b0"],
  python: ["#a9d4f0", "#2f6489"],
  compute: ["#1f9e7a", "#22a882"],
  communication: ["#d9641e", "#e5712b"],
  memory: ["#e6a417", "#e0a52b"],
  sync: ["#7d5fa8", "#8f74b8"],
  input: ["#dcc63c", "#cdb93e"],
  waiting: ["#e9e3cf", "#4a4638"],
  other: ["#a3a9b0", "#767e87"],
};

export const CATEGORIES = Object.keys(FILLS) as Category[];

export interface Theme {
  dark: boolean;
  page: string;
  card: string;
  line: string;
  ink: string;
  quiet: string;
  focus: string;
  mono: string;
  text: string;
}

/** The colors of the page as they are now. */
export function themeOf(host: Element): Theme {
  const style = getComputedStyle(host);
  const value = (name: string) => style.getPropertyValue(name).trim();
  return {
    dark: style.colorScheme.includes("dark"),
    page: value("--page"), card: value("--card"), line: value("--line"), ink: value("--ink"), quiet: value("--quiet"), focus: value("--focus"),
    mono: value("--mono"), text: style.fontFamily,
  };
}

export interface Fill {
  fill: string;
  text: string;
}

const known = new Map<string, Fill>();

/** The fill of a span: that of its category, a little lighter or darker by its name, so that neighbors stand apart. */
export function fillOf(category: Category, name: string, dark: boolean): Fill {
  const key = `${dark ? 1 : 0}${category}${hash(name) % SHADES.length}`;
  const found = known.get(key);
  if (found) return found;
  const made = shaded(FILLS[category][dark ? 1 : 0], SHADES[hash(name) % SHADES.length]!);
  known.set(key, made);
  return made;
}

/** The fill of a category, for the legend. */
export function categoryFill(category: Category, dark: boolean): string {
  return FILLS[category][dark ? 1 : 0];
}

const SHADES = [1, 0.92, 1.08, 1.16] as const; // near each other: a category stays one color

function shaded(hex: string, by: number): Fill {
  const parts = [1, 3, 5].map((at) => Math.min(255, Math.round(parseInt(hex.slice(at, at + 2), 16) * by)));
  const light = luminance(parts as [number, number, number]);
  return { fill: `rgb(${parts.join(" ")})`, text: light > EVEN ? "#000000" : "#ffffff" };
}

const EVEN = Math.sqrt(1.05 * 0.05) - 0.05; // where black and white stand out alike, at 4.58 : 1; elsewhere one of them does more

/** Relative luminance as WCAG defines it. */
function luminance(parts: readonly [number, number, number]): number {
  const [red, green, blue] = parts.map((part) => (part <= 10 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4)) as [number, number, number];
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function hash(text: string): number {
  let value = 7;
  for (let at = 0; at < text.length; at++) value = (value * 31 + text.charCodeAt(at)) | 0;
  return Math.abs(value);
}
