// Calls of two runs as one tree: what is inside a call unfolds beneath it, the largest change first.

import type { App } from "../app";
import type { TreeBlock } from "../document/types";
import { element, fill } from "../dom/element";
import { counted, plain, quantity, signed } from "../format/format";
import { changeCell } from "./changes";
import { breakable, sentence, unbroken } from "./words";

const OPENED = 0.2; // of the largest change: calls with at least so much are open from the beginning
const INDENT = 0.9; // rem for each call around
const TWIST = 1.2; // rem of the mark before a name
const DEEPEST = 24; // calls around: from there on names stand below each other
const ALL = 400; // rows that a page may unfold at once

interface Call {
  at: number;
  depth: number;
  name: string;
  calls: [number | null, number | null];
  own: [number | null, number | null];
  whole: [number | null, number | null];
  inside: Call[];
}

export function drawTree(host: HTMLElement, block: TreeBlock, app: App): void {
  const { words } = app;
  const tops = nested(block);
  const most = tops.reduce((all, call) => Math.max(all, largest(call)), 0);
  const open = new Set<number>();
  visit(tops, (call) => {
    if (call.inside.length && Math.abs(change(call)) >= OPENED * most) open.add(call.at);
  });
  const body = element("tbody", {});
  const heads = [words.call, words.changeInside, words.changeOwn, `A, ${words.allInside}`, `B, ${words.allInside}`, words.callsAB];
  const table = element(
    "table",
    { class: "calls", role: "treegrid", "aria-label": app.words.say(plain(block.title)) },
    element("thead", {}, element("tr", {}, ...heads.map((head, at) => element("th", { scope: "col", class: at ? "number" : "" }, head)))),
    body,
  );
  const draw = (focused?: number) => {
    const rows: HTMLElement[] = [];
    visit(tops, (call) => {
      rows.push(rowOf(call, open.has(call.at), block, most, app));
      return open.has(call.at);
    });
    fill(body, ...rows);
    const chosen = rows.find((row) => Number(row.dataset["at"]) === focused);
    (chosen ?? rows[0])?.setAttribute("tabindex", "0");
    chosen?.focus();
  };
  const turn = (at: number, wanted = !open.has(at)) => {
    if (wanted) open.add(at);
    else open.delete(at);
    draw(at);
  };
  const calls = new Map<number, Call>();
  visit(tops, (call) => void calls.set(call.at, call));
  body.addEventListener("click", (event) => {
    const row = (event.target as Element).closest<HTMLElement>("tr");
    if (row?.hasAttribute("aria-expanded")) turn(Number(row.dataset["at"]));
  });
  body.addEventListener("keydown", (event) => key(event, calls, open, turn));
  const every = (how: boolean) => {
    open.clear();
    if (how) for (const call of calls.values()) if (call.inside.length) open.add(call.at);
    draw();
  };
  const unfold = calls.size <= ALL ? element("button", { type: "button", class: "small", onclick: () => every(true) }, words.unfold) : null;
  const more = block.left_out ? element("p", { class: "quiet" }, `${counted(block.left_out, "", "").trim()} ${words.callsLeftOut} `, sentence("`--format json`")) : null;
  host.append(
    element(
      "section",
      { class: "tree" },
      element("div", { class: "tools" }, element("h3", { class: "name" }, app.words.say(plain(block.title))), element("span", { class: "count" }, words.treeHint), unfold, element("button", { type: "button", class: "small", onclick: () => every(false) }, words.foldUp)),
      element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": app.words.say(plain(block.title)) }, table),
      more,
    ),
  );
  draw();
}

/** The calls, each with those inside it: rows come depth first. */
function nested(block: TreeBlock): Call[] {
  const tops: Call[] = [];
  const above: Call[] = [];
  block.rows.forEach(([depth, name, callsA, callsB, ownA, ownB, wholeA, wholeB], at) => {
    const call: Call = { at, depth, name, calls: [callsA, callsB], own: [ownA, ownB], whole: [wholeA, wholeB], inside: [] };
    above.length = depth;
    (above.at(-1)?.inside ?? tops).push(call);
    above.push(call);
  });
  return tops;
}

/** Calls in order; where the visitor gives false, not those inside. */
function visit(calls: readonly Call[], each: (call: Call) => boolean | void): void {
  for (const call of calls) if (each(call) !== false) visit(call.inside, each);
}

function change(call: Call): number {
  return (call.whole[1] ?? 0) - (call.whole[0] ?? 0);
}

function largest(call: Call): number {
  return call.inside.reduce((all, one) => Math.max(all, largest(one)), Math.abs(change(call)));
}

function rowOf(call: Call, isOpen: boolean, block: TreeBlock, most: number, app: App): HTMLElement {
  const opens = call.inside.length > 0;
  const own = (call.own[1] ?? 0) - (call.own[0] ?? 0);
  const [a, b] = call.whole;
  const twist = element("span", { class: "twist", "aria-hidden": "true" }, opens ? (isOpen ? "▾" : "▸") : "");
  const name = element("td", { class: "call", title: plain(call.name, 2000) }, twist, element("span", {}, breakable(plain(call.name))));
  name.style.paddingLeft = `${Math.min(call.depth, DEEPEST) * INDENT + TWIST}rem`;
  const number = (text: string, label: string) => element("td", { class: "number", "data-label": label }, element("span", {}, unbroken(text)));
  return element(
    "tr",
    { "aria-level": call.depth + 1, "aria-expanded": opens ? String(isOpen) : undefined, tabindex: "-1", "data-at": call.at },
    name,
    element("td", { class: "number", "data-label": app.words.changeInside }, changeCell(change(call), block.unit, most, { a, b }, app)),
    number(signed(own, block.unit), app.words.changeOwn),
    number(quantity(a, block.unit), "A"),
    number(quantity(b, block.unit), "B"),
    number(`${callCount(call.calls[0])} → ${callCount(call.calls[1])}`, app.words.callsAB),
  );
}

function callCount(calls: number | null): string {
  return quantity(calls, "count");
}

/** As in every tree: up and down, into a call and out of it. */
function key(event: KeyboardEvent, calls: ReadonlyMap<number, Call>, open: ReadonlySet<number>, turn: (at: number, open?: boolean) => void): void {
  const row = (event.target as Element).closest<HTMLElement>("tr");
  const call = row && calls.get(Number(row.dataset["at"]));
  if (!row || !call || event.ctrlKey || event.metaKey || event.altKey) return;
  const isOpen = open.has(call.at);
  if (event.key === "ArrowDown") go(row, row.nextElementSibling);
  else if (event.key === "ArrowUp") go(row, row.previousElementSibling);
  else if (event.key === "ArrowRight" && call.inside.length) isOpen ? go(row, row.nextElementSibling) : turn(call.at, true);
  else if (event.key === "ArrowLeft" && isOpen) turn(call.at, false);
  else if (event.key === "ArrowLeft") go(row, around(row));
  else if ((event.key === "Enter" || event.key === " ") && call.inside.length) turn(call.at);
  else return;
  event.preventDefault();
  event.stopPropagation();
}

function go(from: Element, to: Element | null): void {
  if (!(to instanceof HTMLElement)) return;
  from.setAttribute("tabindex", "-1");
  to.setAttribute("tabindex", "0");
  to.focus();
}

/** The row of the call that a call is inside. */
function around(row: Element): Element | null {
  const level = Number(row.getAttribute("aria-level"));
  let found = row.previousElementSibling;
  while (found && Number(found.getAttribute("aria-level")) >= level) found = found.previousElementSibling;
  return found;
}
