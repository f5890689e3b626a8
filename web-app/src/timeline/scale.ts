// From times to pixels and back, and the marks of an axis.

import type { Window } from "./types";

export const SHORTEST = 100; // ns: below it nothing is recorded

export class Scale {
  /** `left`: where the window begins; `width`: how many pixels it has. */
  constructor(readonly window: Window, readonly left: number, readonly width: number) {}

  x(time: number): number {
    return this.left + ((time - this.window.start) * this.width) / (this.window.end - this.window.start);
  }

  time(x: number): number {
    return this.window.start + ((x - this.left) * (this.window.end - this.window.start)) / this.width;
  }

  get perPixel(): number {
    return (this.window.end - this.window.start) / this.width;
  }
}

/** A window as close to the one that is wanted as the limits allow. */
export function kept(wanted: Window, limits: Window): Window {
  const most = Math.max(limits.end - limits.start, SHORTEST);
  const length = Math.min(Math.max(wanted.end - wanted.start, SHORTEST), most);
  const middle = (wanted.start + wanted.end) / 2;
  const start = Math.min(Math.max(middle - length / 2, limits.start), limits.start + most - length);
  return { start, end: start + length };
}

export function zoomed(window: Window, at: number, by: number): Window {
  return { start: at - (at - window.start) * by, end: at + (window.end - at) * by };
}

/** A window with a little around a span. */
export function withMargin(start: number, end: number): Window {
  const margin = Math.max((end - start) * 0.1, 50);
  return { start: start - margin, end: end + margin };
}

const READABLE = 4; // pixels that a span must have to be found again

/** The window in which a span is seen, if it is not seen in this one. */
export function brought(window: Window, span: Window, perPixel: number): Window | null {
  const [length, taken] = [window.end - window.start, span.end - span.start];
  if (taken < READABLE * perPixel) return { start: span.start - taken * 12 - 500, end: span.end + taken * 12 + 500 };
  if (span.start >= window.start && span.end <= window.end) return null;
  if (taken > length) return { start: span.start - taken * 0.1, end: span.end + taken * 0.1 };
  const middle = (span.start + span.end) / 2;
  return { start: middle - length / 2, end: middle + length / 2 };
}

const UNITS: readonly (readonly [number, string])[] = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];

/** Marks at round times, at least `apart` pixels from each other, and how to write them. */
export function marks(scale: Scale, apart: number): { time: number; text: string }[] {
  const least = scale.perPixel * apart;
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= least) ?? power * 10;
  const found: { time: number; text: string }[] = [];
  for (let time = Math.ceil(scale.window.start / step) * step; time <= scale.window.end; time += step) {
    found.push({ time, text: moment(time, step) });
  }
  return found;
}

/** A moment with as many digits as steps of this size need. */
export function moment(time: number, step: number): string {
  const [size, unit] = UNITS.find(([one]) => Math.max(Math.abs(time), step) >= one) ?? [1, "ns"];
  const places = Math.max(0, Math.min(9, Math.ceil(Math.log10(size / step) - 1e-9)));
  return `${grouped((time / size).toFixed(places))} ${unit}`;
}

function grouped(number: string): string {
  const [whole, rest] = number.split(".");
  return whole!.replace(/\B(?=(\d{3})+$)/g, ",") + (rest ? `.${rest}` : "");
}

/** `12.5ms`, `1500` (ns) of an address; NaN if it is none. */
export function parsed(text: string): number {
  const match = /^\s*(-?[\d.]+)\s*(ns|us|µs|ms|s)?\s*$/.exec(text);
  if (!match) return NaN;
  const sizes: Record<string, number> = { ns: 1, us: 1e3, "µs": 1e3, ms: 1e6, s: 1e9 };
  return Number(match[1]) * (sizes[match[2] ?? "ns"] ?? 1);
}
