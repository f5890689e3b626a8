// What other settings of the loader would make of a step: sliders, and the predicted step over workers with its range.

import type { App, Cleanup, View } from "../app";
import { lacking } from "../blocks/lacking";
import { unbroken } from "../blocks/words";
import { color } from "../blocks/colors";
import { axis, drawChart, tooltip, type Option } from "../charts/chart";
import { element, fill } from "../dom/element";
import { onAxis, plain, quantity } from "../format/format";

interface Row {
  workers: number;
  step: number;
  low: number;
  high: number;
  saved: number;
  limited_by: string;
  recorded: boolean;
  basis: string;
}

/** What a trial of a tuning measured: the mean step and its 95 % interval, ns. `other`: it has other settings besides. */
interface Measured {
  setting: string;
  workers: number;
  step: number;
  low: number | null;
  high: number | null;
  other: boolean;
}

interface Predicted {
  reads: boolean;
  measured: Measured[];
  names: string[];
  settings: { workers: number | null; prefetch: number | null; batch_size: number | null } | null;
  rows: Row[];
  missing: { what: string; how: string } | null;
}

const REST = 200; // ms after which a slider has come to rest
const FACTORS = [1, 1.5, 2, 3, 5, 10, 20, 1000]; // the last: as if it took no time
const SIZES = [0.25, 0.5, 1, 2, 4]; // of the recorded batch size
const MOST_PREFETCH = 16;

export const whatIf: View = {
  name: "what-if",
  group: "input",
  available: (app) => app.served && app.document.sections.some((section) => section.name === "input-pipeline" && section.blocks.length > 0),
  title: (app) => app.words.whatIf.title,
  draw: (host, app) => new WhatIf(host, app).start(),
};

class WhatIf {
  private readonly told = element("p", { class: "answer", role: "status" });
  private readonly box = element("div", { class: "chart what-if" });
  private readonly note = element("p", { class: "quiet" });
  private readonly controls = element("div", { class: "sliders" });
  private shown: Predicted | null = null;
  private workers = 0;
  private chosen = { prefetch: 0, size: SIZES.indexOf(1), name: "", factor: 0, latency: 0 };
  private resting = 0;
  private asked = 0;
  private clean: Cleanup | undefined;

  constructor(private readonly host: HTMLElement, private readonly app: App) {}

  start(): Cleanup {
    this.host.append(element("h2", {}, this.app.words.whatIf.title), element("p", { class: "quiet" }, this.app.words.whatIf.hint), this.told, this.controls, this.box, this.note);
    fill(this.told, this.app.words.loading);
    void this.ask(true);
    return () => {
      this.asked = -1;
      clearTimeout(this.resting);
      this.clean?.();
    };
  }

  private async ask(first = false): Promise<void> {
    const number = ++this.asked;
    try {
      const predicted = await this.app.fetchJson<Predicted>(`api/predict?${this.query()}`);
      if (number !== this.asked) return;
      if (predicted.missing) return this.lacking(predicted, predicted.missing);
      this.shown = predicted;
      if (first) this.begin(predicted);
      this.draw();
    } catch (error) {
      if (number === this.asked) fill(this.told, `${this.app.words.failed}: ${String(error)}`);
    }
  }

  /** Without a prediction; what was measured is drawn all the same. */
  private lacking({ measured, settings }: Predicted, { what, how }: { what: string; how: string }): void {
    fill(this.told, lacking({ what, how }, this.app.words));
    this.clean?.();
    this.clean = undefined;
    fill(this.box);
    if (measured.length) {
      this.shown = { names: [], settings, reads: false, measured, rows: [], missing: null };
      this.note.textContent = this.app.words.whatIf.trials;
      this.plot(null);
      return;
    }
    this.box.removeAttribute("role");
    this.box.removeAttribute("aria-label");
  }

  private query(): string {
    const { prefetch, size, name, factor, latency } = this.chosen;
    const words = new URLSearchParams();
    if (prefetch) words.set("prefetch", String(prefetch));
    const batch = this.shown?.settings?.batch_size;
    if (batch && SIZES[size] !== 1) words.set("batch_size", String(Math.max(1, Math.round(batch * SIZES[size]!))));
    if (name && FACTORS[factor] !== 1) words.append("faster", `${name}=${FACTORS[factor]}`);
    if (FACTORS[latency] !== 1) words.append("faster", `read=${FACTORS[latency]}`);
    return words.toString();
  }

  /** The sliders begin where the run was. */
  private begin({ settings, rows, names, reads }: Predicted): void {
    const { whatIf: words } = this.app.words;
    this.workers = settings?.workers ?? rows.find((row) => row.recorded)?.workers ?? 0;
    this.chosen.name = names[0] ?? "";
    const batch = settings?.batch_size ?? null;
  const most = Math.max(...rows.map((row) => row.workers));
    this.controls.append(this.slider("num_workers", 0, most, this.workers, String, (value) => {
      this.workers = value;
      this.draw();
    }));
    this.controls.append(this.slider("prefetch_factor", 0, MOST_PREFETCH, 0, (value) => (value ? String(value) : `${words.asRecorded}${settings?.prefetch ? ` (${settings.prefetch})` : ""}`), (value) => this.change({ prefetch: value })));
    if (batch) this.controls.append(this.slider("batch_size", 0, SIZES.length - 1, this.chosen.size, (value) => String(Math.max(1, Math.round(batch * SIZES[value]!))), (value) => this.change({ size: value })));
    const latency = (value: number) => (FACTORS[value] === 1 ? words.asRecorded : FACTORS[value] === 1000 ? words.noTime : `1/${FACTORS[value]}`);
    if (reads) this.controls.append(this.slider(words.latency, 0, FACTORS.length - 1, 0, latency, (value) => this.change({ latency: value })));
    if (names.length) this.controls.append(this.functions(names));
  }

  private functions(names: readonly string[]): HTMLElement {
    const { whatIf: words } = this.app.words;
    const select = element("select", { "aria-label": words.function }, ...names.map((name) => element("option", { value: name }, plain(name, 60))));
    select.addEventListener("change", () => this.change({ name: select.value }));
    const told = (value: number) => (FACTORS[value] === 1000 ? words.noTime : `${FACTORS[value]}×`);
    const slider = this.slider(words.faster, 0, FACTORS.length - 1, 0, told, (value) => this.change({ factor: value }));
    slider.prepend(select);
    return slider;
  }

  private slider(name: string, least: number, most: number, value: number, told: (value: number) => string, moved: (value: number) => void): HTMLElement {
    const output = element("output", {}, told(value));
    const input = element("input", { type: "range", min: least, max: most, value, step: 1, "aria-label": name, "aria-valuetext": told(value) });
    input.addEventListener("input", () => {
      output.textContent = told(Number(input.value));
      input.setAttribute("aria-valuetext", told(Number(input.value)));
      moved(Number(input.value));
    });
    return element("div", { class: "slider" }, element("span", {}, name), input, output);
  }

  private change(what: Partial<WhatIf["chosen"]>): void {
    this.chosen = { ...this.chosen, ...what };
    clearTimeout(this.resting);
    this.resting = window.setTimeout(() => void this.ask(), REST);
  }

  /** The measured trials in words. */
  private spoken(): string {
    const trials = (this.shown?.measured ?? []).map((one) => `${plain(one.setting)}: ${quantity(one.step, "ns")}`);
    return trials.length ? `; ${this.app.words.whatIf.measured}: ${trials.join("; ")}` : "";
  }

  private draw(): void {
    const { words } = this.app;
    const row = this.shown?.rows.find((one) => one.workers === this.workers) ?? this.shown?.rows[0];
    if (!row) return;
    const change = Math.round(row.saved) === 0 ? words.whatIf.asRecorded : `${quantity(Math.abs(row.saved), "ns")} ${row.saved > 0 ? words.whatIf.shorter : words.whatIf.longer}`;
    const range = row.low < row.high ? ` (${quantity(row.low, "ns")} – ${quantity(row.high, "ns")})` : "";
    const [before = "", after = ""] = words.perStep("|").split("|");
    fill(this.told, before, element("b", {}, unbroken(quantity(row.step, "ns"))), unbroken(`${after}${range}${words.comma}${change}${words.semicolon}${words.whatIf.limitedBy} ${words.say(row.limited_by)}`));
    this.note.textContent = `${this.shown?.measured.length ? `${words.whatIf.trials} ` : ""}${words.say(plain(row.basis, 400))}`;
    this.plot(row.workers);
  }

  private plot(workers: number | null): void {
    const { words } = this.app;
    const { rows = [], settings = null, measured = [] } = this.shown ?? {};
    this.box.setAttribute("role", "img"); // only once it holds a chart, which has words
    this.box.setAttribute("aria-label", `${words.whatIf.title}: ${rows.map((one) => `${one.workers}: ${quantity(one.step, "ns")}`).join("; ")}${this.spoken()}`);
    this.clean?.();
    this.clean = drawChart(this.box, () => option(rows, workers, settings?.workers ?? null, measured, this.app));
  }
}

function option(rows: readonly Row[], workers: number | null, recorded: number | null, measured: readonly Measured[], app: App): Option {
  const end = measured.length && !rows.length ? Math.max(...measured.map((one) => one.workers)) + 1 : "dataMax";
  const most = Math.max(...rows.map((row) => row.high), ...measured.map((one) => one.high ?? one.step));
  const line = { type: "line", symbol: "none", silent: true };
  const points = (value: (row: Row) => number) => rows.map((row) => [row.workers, value(row)]);
  const mark = (at: number, name: string, dashed: boolean) => ({ xAxis: at, label: { formatter: name, color: color("--ink") }, lineStyle: { color: color("--quiet"), type: dashed ? "dashed" : "solid" } });
  const marks = [...(workers === null ? [] : [mark(workers, "", false)]), ...(recorded === null ? [] : [mark(recorded, app.words.whatIf.recorded, true)])];
  return {
    grid: { left: 8, right: 24, top: 24, bottom: 24, containLabel: true },
    tooltip: tooltip({
      trigger: "axis",
      formatter: (found: { value: [number, number] }[]) => {
        const at = found[0]?.value[0];
        const row = rows.find((one) => one.workers === at);
        const trials = measured.filter((one) => one.workers === at).map((one) => `\n${app.words.whatIf.measured}: ${interval(one)}${one.other ? `, ${plain(one.setting)}` : ""}`);
        return row ? `num_workers ${row.workers}\n${quantity(row.step, "ns")} (${quantity(row.low, "ns")} – ${quantity(row.high, "ns")})\n${app.words.whatIf.limitedBy} ${app.words.say(row.limited_by)}${trials.join("")}` : trials.join("").trim();
      },
    }),
    xAxis: axis({ type: "value", min: 0, max: end, minInterval: 1, name: "num_workers", nameLocation: "middle", nameGap: 24, splitLine: { show: false } }),
    yAxis: axis({ type: "value", min: 0, axisLabel: { formatter: (value: number) => onAxis(value, "ns", most) } }),
    series: [
      { ...line, stack: "band", lineStyle: { opacity: 0 }, data: points((row) => row.low) },
      { ...line, stack: "band", lineStyle: { opacity: 0 }, areaStyle: { color: color("--p1"), opacity: 0.22 }, data: points((row) => row.high - row.low) },
      { type: "line", symbol: "circle", symbolSize: 5, itemStyle: { color: color("--p1") }, lineStyle: { color: color("--p1"), width: 2 }, data: points((row) => row.step), markLine: { symbol: "none", silent: true, data: marks } },
      ...trialSeries(measured),
    ],
  };
}

const interval = (one: Measured) => `${quantity(one.step, "ns")}${one.low === null ? "" : ` (${quantity(one.low, "ns")} – ${quantity(one.high, "ns")})`}`;

/** Each trial as a point with its interval; hollow where it has other settings than the curve. */
function trialSeries(measured: readonly Measured[]): Option["series"][] {
  const ink = color("--ink");
  const bars = measured.filter((one) => one.low !== null).map((one) => ({ type: "line", symbol: "none", silent: true, lineStyle: { color: ink, width: 2 }, data: [[one.workers, one.low], [one.workers, one.high]] }));
  const points = { type: "line", symbol: "diamond", symbolSize: 10, lineStyle: { opacity: 0 }, data: measured.map((one) => ({ value: [one.workers, one.step], itemStyle: { color: one.other ? color("--page") : ink, borderColor: ink, borderWidth: 2 } })) };
  return measured.length ? [...bars, points] : [];
}
