// What a report says, in another language: English messages with `{}` for whatever stands in them, and their translations.

/** `{1}` in a translation is the first `{}` as it is, `{1*}` the same where it is a message itself. */
export interface Translations {
  messages: Record<string, string>;
  /** Pages of rules by their names, in Markdown. */
  rules: Record<string, string>;
}

interface Template {
  /** Of several clauses. */
  readonly clauses: boolean;
  readonly longest: string;
  readonly pattern: RegExp;
  readonly translated: string;
}

const PLACE = /\{(\d)(\*?)\}/g;
const WITHIN = "((?:(?!\\. [A-Z\\d]).)*?)"; // no sentence ends in it
const SENTENCE = /(?<=\.) (?=[A-Z`{\d])/;
const IN_PARENTHESES = /^(.+?)( \((.*)\))$/;
const WITHIN_PARENTHESES = /\([^)]*; /;
const FIGURES = /(?<=^<?\d.*), (?=<?\d)/; // between `80 % compute` and `20 % data wait`
const SETTINGS = / → .*; .* → |; the command$/;
const NAMES = /, | and |; /;
const EDGE = "\u0001"; // of a part that was put in
const LATIN_AFTER = /(\p{Script=Han})\u0001(?=[\w`<(])|(\w)\u0001(?=\()/gu;
const LATIN_BEFORE = /([\w%`])\u0001(?=\p{Script=Han})/gu;
const BLANK = /(?<=[\p{Script=Han}，。；：、（）]\u0001?) (?=\u0001?[\p{Script=Han}，。；：、（）])/gu;
const WORD = /[A-Za-z]{2}/;
// A report without steps says the same of all that was recorded.
const WITHOUT_STEPS: readonly [RegExp, string, string, string][] = [
  [/ per step/, " in total", "每步", "总共"],
  [/ per step$/, "", "每步", ""],
];

export class Catalog {
  private readonly known: Map<string, string>;
  private readonly templates: readonly Template[];
  private readonly found = new Map<string, string | null>();

  constructor(readonly translations: Translations) {
    this.known = new Map(Object.entries(translations.messages));
    for (const [text, translated] of [...this.known]) {
      for (const [what, other, word, instead] of WITHOUT_STEPS) {
        const without = text.replace(what, other);
        if (without !== text && WORD.test(without) && !this.known.has(without)) this.known.set(without, translated.replace(word, instead));
      }
    }
    for (const [text, translated] of [...this.known]) {
      const [parts, told] = [text.split(SENTENCE), translated.split(/(?<=。)/)];
      if (parts.length > 1 && parts.length === told.length && !text.includes("{}")) parts.forEach((part, at) => this.known.set(part, told[at] ?? ""));
    }
    this.templates = [...this.known]
      .filter(([text]) => text.includes("{}"))
      .sort(([one], [other]) => Number(one.startsWith("{}")) - Number(other.startsWith("{}")) || literal(other) - literal(one))
      .map(([text, translated]) => ({ clauses: text.includes("; "), longest: longest(text), pattern: patternOf(text), translated }));
  }

  /** A text of the report in the language; what nobody has translated stays English. */
  say(text: string): string {
    return this.find(text.trim()) ?? text;
  }

  private find(text: string): string | null {
    let told = this.found.get(text);
    if (told === undefined) {
      told = this.known.get(text) ?? this.listed(text, FIGURES) ?? (SETTINGS.test(text) ? this.partly(text) : null) ?? this.clauses(text) ?? this.filled(text) ?? this.stopped(text) ?? this.sentences(text) ?? this.parenthesized(text) ?? this.listed(text, NAMES) ?? this.partly(text);
      this.found.set(text, told);
    }
    return told;
  }

  /** Clauses that are all known, unless one message is of several: `{} cores` is of the last one only. */
  private clauses(text: string): string | null {
    const parts = text.split("; ");
    if (parts.length < 2 || WITHIN_PARENTHESES.test(text)) return null;
    const whole = this.filled(text, true);
    if (whole) return whole;
    const told = parts.map((part) => this.known.get(part) ?? this.filled(part));
    return told.every((part) => part !== null) ? told.join("；") : null;
  }

  private filled(text: string, several = false): string | null {
    for (const { clauses, longest: part, pattern, translated } of this.templates) {
      if (several && !clauses) continue;
      const places = text.includes(part) ? pattern.exec(text) : null;
      if (places) return closed(translated.replace(PLACE, (_, at: string, speaks: string) => EDGE + this.part((places[Number(at)] ?? "").trim(), speaks) + EDGE));
    }
    return null;
  }

  /** A sentence whose message is known without its full stop. */
  private stopped(text: string): string | null {
    const told = text.endsWith(".") ? (this.known.get(text.slice(0, -1)) ?? this.filled(text.slice(0, -1))) : null;
    return told && `${told}。`;
  }

  private part(text: string, speaks: string): string {
    return speaks ? this.say(text) : text;
  }

  private sentences(text: string): string | null {
    const parts = text.split(SENTENCE);
    if (parts.length < 2 || parts.every((part) => this.find(part) === null)) return null;
    return parts.map((part) => this.say(part)).reduce((all, part) => (/[。；：]$/.test(all) ? all + part : `${all} ${part}`));
  }

  private parenthesized(text: string): string | null {
    const [, before = "", within = "", inside = ""] = IN_PARENTHESES.exec(text) ?? [];
    const told = before ? this.find(before) : null;
    return told && told + (this.find(within.trim()) ?? `（${this.say(inside)}）`);
  }

  /** A list of which every part is known. */
  private listed(text: string, between: RegExp): string | null {
    const parts = text.split(between);
    const told = parts.length > 1 ? parts.map((part) => (WORD.test(part) ? this.find(part) : part)) : [null];
    return told.every((part) => part !== null) ? told.join("、") : null;
  }

  /** Of what is told of several, such as settings, the parts that are known. */
  private partly(text: string): string | null {
    const parts = text.split("; ");
    return parts.length > 1 && parts.some((part) => this.find(part) !== null) ? parts.map((part) => this.say(part)).join("；") : null;
  }
}

/** A blank where a part that was put in is Latin beside Chinese, none where both are Chinese. */
function closed(text: string): string {
  return text.replace(LATIN_AFTER, "$1$2 ").replace(LATIN_BEFORE, "$1 ").replace(BLANK, "").replaceAll(EDGE, "");
}

/** How much of a message is words. */
function literal(text: string): number {
  return text.replaceAll("{}", "").length;
}

function longest(text: string): string {
  return text.split("{}").reduce((one, other) => (other.length > one.length ? other : one));
}

function patternOf(text: string): RegExp {
  return new RegExp(`^${text.split("{}").map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join(WITHIN)}$`, "s");
}
