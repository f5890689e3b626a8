// The only place a number becomes text, with the same result as src/stepscope/render/format.py: a test compares both.

import type { Cell, Evidence, Gain, Place, Unit } from "../document/types";
import { toFixed, toPrecision } from "./rounding";

export const ABSENT = "–";
const NAME_LIMIT = 160;
const BEFORE = 12; // letters shown before those in which names differ

type Scales = readonly (readonly [number, string])[];
const TIMES: Scales = [[1, "ns"], [1e3, "µs"], [1e6, "ms"], [1e9, "s"]];
const SIZES: Scales = [[1, "B"], [2 ** 10, "KiB"], [2 ** 20, "MiB"], [2 ** 30, "GiB"], [2 ** 40, "TiB"]];
const RATES: Scales = [[1, "B"], [1e3, "kB"], [1e6, "MB"], [1e9, "GB"]];
const WORK: Scales = [[1, "FLOP"], [1e3, "kFLOP"], [1e6, "MFLOP"], [1e9, "GFLOP"], [1e12, "TFLOP"], [1e15, "PFLOP"]];

/** A number and its unit, three significant digits. `decimal`: the number need not be whole. */
export function quantity(value: number | null | undefined, unit: Unit | null, decimal = false): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return ABSENT;
  switch (unit) {
    case "ns":
      return scaled(value, TIMES, decimal);
    case "bytes":
      return scaled(value, SIZES, decimal);
    case "ratio":
      return `${percent(value)} %`;
    case "count":
      return count(value);
    case "watts":
      return `${digits(value)} W`;
    case "GB/s":
      return `${scaled(value * 1e9, RATES, true)}/s`;
    case "FLOP":
      return scaled(value, WORK, decimal);
    case "FLOP/s":
      return `${scaled(value, WORK, decimal)}/s`;
    case "money":
      return money(value);
    default:
      return decimal ? digits(value) : String(value);
  }
}

/** Three significant digits, and no less than two decimals from 1 to 100. */
function money(value: number): string {
  const [whole = "", decimals = ""] = digits(value).split(".");
  return Math.abs(value) >= 1 && Math.abs(value) < 100 ? `${whole}.${decimals.padEnd(2, "0")}` : digits(value);
}

/** The text of a mark on an axis whose largest value is `most`: all marks of it are in one unit, `0 ms` beside `20 ms`. */
export function onAxis(value: number, unit: Unit | null, most: number): string {
  const scales = unit === "ns" ? TIMES : unit === "bytes" ? SIZES : unit === "FLOP" ? WORK : null;
  if (!scales) return quantity(value, unit);
  const [scale, suffix] = scaleOf(most, scales);
  return `${digits(value / scale)} ${suffix}`;
}

/** A difference: `+5.17 ms`, `−2.8 ms`, `0 ns`. */
export function signed(value: number, unit: Unit | null, decimal = !Number.isInteger(value)): string {
  const text = quantity(value, unit, decimal);
  return value > 0 ? `+${text}` : text.replace(/^-/, "−");
}

/** One cell of a table: a quantity, yes or no, or a name. */
export function cell(value: Cell | undefined, unit: Unit | null, decimal = false, limit = NAME_LIMIT): string {
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (value === null || value === undefined || typeof value === "number") return quantity(value, unit, decimal);
  return plain(value, limit);
}

/** `1 step`, `1,240 steps`. */
export function counted(number: number, noun: string, nouns = `${noun}s`): string {
  return `${count(number)} ${number === 1 ? noun : nouns}`;
}

/** The value of an evidence with what it is a part of: `19.6 ms · 82 %`, `1.96 of 2`; `of` is that word in the language of the page. */
export function figureText(one: Evidence, of = "of"): string {
  const told = figure(one.value, one.unit);
  const whole = one.of === null ? told : `${told} ${of} ${figure(one.of, one.unit)}`;
  return one.share === null ? whole : `${whole} · ${quantity(one.share, "ratio")}`;
}

function figure(value: number | null, unit: Unit | null): string {
  return quantity(value, unit, !Number.isInteger(value));
}

/** `12–20 ms` and `8–13 %` of a gain; no share where the source marks no steps. */
export function gainParts(gain: Gain, ofSteps: boolean): { times: string; shares: string } {
  const [scale, suffix] = scaleOf(gain.high_ns, TIMES);
  const times = `${range(digits(gain.low_ns / scale), digits(gain.high_ns / scale))} ${suffix}`;
  if (!ofSteps || !gain.step_ns) return { times, shares: "" };
  const [low, high] = [gain.low_ns / gain.step_ns, gain.high_ns / gain.step_ns];
  return { times, shares: `${range(percent(low), percent(high))} %` };
}

/** Whether a gain may be nothing, or the replacement of the code is unknown: then it is told as "up to". */
export function isAtMost(gain: Gain): boolean {
  return gain.curve.length > 0 || !gain.low_ns;
}

/** `82 %` and `49.1 ms` of a gain at most. */
export function mostOf(gain: Gain): [string, string] {
  const [scale, suffix] = scaleOf(gain.high_ns, TIMES);
  return [`${percent(gain.high_ns / gain.step_ns)} %`, `${digits(gain.high_ns / scale)} ${suffix}`];
}

/** `2` and `38 %`: what is saved where the code becomes so many times as fast. */
export function curvePoints(gain: Gain): [string, string][] {
  return gain.step_ns ? gain.curve.map(([factor, saved]) => [digits(factor), quantity(saved / gain.step_ns, "ratio")]) : [];
}

/** `train.py:41 in __getitem__`. */
export function placeText(place: Place): string {
  const symbol = place.symbol ? ` in ${plain(place.symbol)}` : "";
  return `${plain(place.file)}:${place.line}${symbol}`;
}

/** A name on one line: unsafe characters as visible escapes, the middle of a long one left out. */
export function plain(name: string, limit = NAME_LIMIT): string {
  return shorten(name, limit).replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, (letter) =>
    letter === "\u200c" || letter === "\u200d" ? letter : escaped(letter),
  );
}

/** A long name beside others that are the same at both ends: its ends, and the part in which they differ. */
export function plainAmong(name: string, others: readonly string[], limit = NAME_LIMIT): string {
  const letters = [...name];
  const same = Math.min(...others.map((other) => [...other].findIndex((letter, at) => letter !== letters[at])).filter((at) => at >= 0));
  const ends = Math.floor((limit - 2) / 3);
  if (letters.length <= limit || !Number.isFinite(same)) return plain(name, limit);
  const from = Math.max(ends, Math.min(same - BEFORE, letters.length - 2 * ends));
  const to = Math.min(from + ends, letters.length - ends);
  const part = (start: number, end?: number) => letters.slice(start, end).join("");
  return plain(part(0, ends) + (from > ends ? "…" : "") + part(from, to) + (to < letters.length - ends ? "…" : "") + part(letters.length - ends), limit);
}

/** Lines of code with tabs as four spaces, otherwise as `plain` shows names. */
export function codeLines(code: string): string[] {
  const trimmed = code.replace(/^[\r\n]+|[\r\n]+$/g, "");
  return trimmed ? trimmed.split(/\r\n|\r|\n/).map((line) => plain(line.replaceAll("\t", "    "), 400)) : [];
}

function shorten(name: string, limit: number): string {
  const letters = [...name];
  if (letters.length <= limit) return name;
  const tail = Math.floor((limit - 1) / 3);
  return `${letters.slice(0, limit - 1 - tail).join("")}…${letters.slice(letters.length - tail).join("")}`;
}

function escaped(letter: string): string {
  const code = letter.codePointAt(0) ?? 0;
  const short = new Map([[9, "\\t"], [10, "\\n"], [13, "\\r"]]).get(code);
  if (short) return short;
  const [mark, width] = code < 0x100 ? ["x", 2] : code < 0x10000 ? ["u", 4] : ["U", 8];
  return `\\${mark}${code.toString(16).padStart(width as number, "0")}`;
}

function scaled(value: number, scales: Scales, decimal: boolean): string {
  const [scale, suffix] = scaleOf(value, scales);
  if (scale === 1 && !decimal && Number.isInteger(value)) return `${value} ${suffix}`;
  return `${digits(value / scale)} ${suffix}`;
}

/** The largest scale in which the value, as it will be printed, is not below 1. */
function scaleOf(value: number, scales: Scales): readonly [number, string] {
  return scales.findLast(([scale]) => Math.abs(toPrecision(value / scale, 3)) >= 1) ?? scales[0]!;
}

/** Three significant digits, without trailing zeros, and without an exponent down to a millionth. */
function digits(value: number): string {
  const rounded = toPrecision(value, 3);
  if (rounded === 0) return "0";
  if (Math.abs(rounded) >= 100) return grouped(toFixed(rounded, 0));
  if (Math.abs(rounded) < 1e-6) return rounded.toExponential(2).replace(/e([+-])(\d)$/, "e$10$2");
  return toFixed(rounded, Math.abs(rounded) >= 1e-3 ? 5 : 8).replace(/0+$/, "").replace(/\.$/, "");
}

/** Whole per cent from 10 up, one decimal below and near 100, `<0.1` and `>99.9` for nearly nothing and all. */
function percent(ratio: number): string {
  const value = ratio * 100;
  if (value > 0 && value < 0.05) return "<0.1";
  if (value >= 99.95 && value < 100) return ">99.9";
  const rounded = Math.abs(value) < 9.95 || (value >= 99.5 && value < 100) ? toFixed(value, 1) : grouped(toFixed(value, 0));
  return rounded.replace(/\.0$/, "");
}

function count(value: number): string {
  return Math.abs(value) >= 1000 ? grouped(toFixed(value, 0)) : digits(value);
}

function range(low: string, high: string): string {
  return low === high ? high : `${low}–${high}`;
}

function grouped(whole: string): string {
  return whole.replace(/\B(?=(\d{3})+$)/g, ",");
}
