"""The page in other languages: no message of a report is without a translation, and none is left in English."""

import ast
import json
import re
import runpy
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from stepscope.core.synth import Synth
from stepscope.render.finite import finite
from stepscope.render.json import report_document
from stepscope.report.assemble import assemble
from stepscope.report.diagnose import RULES
from stepscope.web.routes.tables import listed

from .page_source import answers

ROOT = Path(__file__).parents[1]
TOOL: dict[str, Any] = runpy.run_path(str(ROOT / "tools" / "messages.py"))
BUILDER: dict[str, Any] = runpy.run_path(str(ROOT / "tools" / "build_page.py"))
catalog: Callable[[str], dict[str, str]] = TOOL["catalog"]
LANGUAGES = ("zh",)
FREE = ("joined.json", "labels.json", "listed.json")  # of texts put together, single words, and the list of tables

SAY = """
const { Catalog } = require(process.argv[2]);
const { translations, texts } = JSON.parse(require("fs").readFileSync(0, "utf8"));
const catalog = new Catalog(translations);
process.stdout.write(JSON.stringify(texts.map((text) => catalog.say(text))));
"""
PLACE = re.compile(r"\{(\d)\*?\}")
PROSE = re.compile(r"(?<![\w.(/=:-])[a-z]{2,}(,? [a-z]{2,}){2,}(?![\w=(./:])")  # three words, which no name has
CODE = re.compile(r"`[^`]*`|stepscope \w+ \w+ -- COMMAND|Tensor Cores?")
CHINESE = re.compile(r"[\u4e00-\u9fff]")
NAMES = {
    "name", "operator", "kernel", "module", "file", "function", "code", "line", "source", "launched by", "calls into",
    "rule", "checks", "ended by", "the host was in", "longest host call", "collective", "group", "process",
}  # fmt: skip
"""Headings of cells that hold names of others."""
AS_THEY_ARE = re.compile(
    r"[\W\d_]*|[a-z]+(_[a-z]+)+|(end|last_end|wall|own) [-/] \w+|rank|ppm|collate|bus|softmax|GEMM|SM\w*|"
    r"Operators, .*"
)
"""Identifiers, formulas and terms that are the same in every language."""


def say(texts: Iterable[str], folder: Path, translations: dict[str, Any] | None = None) -> list[str]:
    known = translations or BUILDER["translations"](ROOT, "zh")
    told: list[str] = answers("words/catalog.ts", SAY, {"translations": known, "texts": list(texts)}, folder)
    return told


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_message_has_a_translation(language: str) -> None:
    """To mend: add an entry to web-app/src/words/LANGUAGE/, as docs/developing/extending.md says."""
    assert [f"{file}:{line}: {text!r}" for file, line, text in TOOL["missing"](language)] == []


def test_a_message_without_a_translation_is_told_with_its_place() -> None:
    new = ("rules/new.py", 41, "{} takes {} of a new resource")
    assert TOOL["missing"]("zh", [new, ("rules/old.py", 1, "Set pin_memory=True")]) == [new]


def test_of_a_module_those_texts_are_messages_that_a_reader_can_see(tmp_path: Path) -> None:
    source = '''"""A rule about a thing."""
PATTERN = re.compile(r"^a (new )?pattern")
def check(run):
    """What it does in words."""
    yield Finding(title=Title("{} waits for {}", names), advice=(Advice(f"Use {name} instead", "model = use(it)"),))
    raise MissingData("steps of a job", how=f"run it: {HOW}" + "".join(f" and {one}" for one in others))
def example(synth: Synth, fixed: bool) -> None:
    synth.host("a name of its own", "operator", 0, 1)
'''
    found = [text for _, text in TOOL["_of_module"](ast.parse(source))]
    assert found == ["{} waits for {}", "Use {} instead", "steps of a job", "run it: {}"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_entry_is_of_a_message_that_is_gone(language: str) -> None:
    messages = {text for _, _, text in TOOL["messages"]()}
    words = words_of_the_source()
    gone = []
    for file in sorted((ROOT / "web-app" / "src" / "words" / language).glob("*.json")):
        entries = json.loads(file.read_text(encoding="utf-8")).keys() - messages
        free = {entry for entry in entries if set(re.findall("[a-z]{2,}", entry.lower())) <= words}
        gone += [f"{file.name}: {entry}" for entry in entries - (free if file.name in FREE else set())]
    assert gone == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_list_of_tables_has_a_translation(language: str) -> None:
    """To mend: add the first sentence of the page of the analysis to web-app/src/words/LANGUAGE/listed.json."""
    known = set(catalog(language))
    folder = ROOT / "web-app" / "src" / "words" / language
    kept = json.loads((folder / "listed.json").read_text(encoding="utf-8"))
    rows = {one["row"] for one in listed()} - {""}
    assert rows - known == set()
    assert set(kept) - rows == set()


def words_of_the_source() -> set[str]:
    """Their plurals, too: nouns after numbers are put together."""
    files = sorted((ROOT / "src" / "stepscope").rglob("*.py"))
    words = {word for file in files for word in re.findall("[a-z]{2,}", file.read_text(encoding="utf-8").lower())}
    return words | {f"{word}s" for word in words}


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_translation_has_the_places_of_its_message(language: str) -> None:
    wrong = []
    for text, told in catalog(language).items():
        places = {int(number) for number in PLACE.findall(told)}
        if not told.strip() or (places and max(places) > text.count("{}")) or "{}" in told or "{*}" in told:
            wrong.append((text, told))
    assert wrong == []


def test_a_text_is_translated_by_its_template_and_names_stay(tmp_path: Path) -> None:
    messages = {
        "{} takes {} per step": "{1} 每步占 {2}",
        "{} of loading": "加载的 {1}",
        "Unknown: {}.": "未知：{1*}。",
        "no steps": "没有步",
        "From {} steps only.": "只有 {1} 步。",
        "step wait": "步等待",
        "wait per step": "每步等待",
    }
    cases = {
        "no steps": "没有步",
        "no steps takes 3 ms per step": "no steps 每步占 3 ms",
        "Unknown: no steps. From 4 steps only.": "未知：没有步。只有 4 步。",
        "resize takes 3 ms in total": "resize 总共占 3 ms",
        "wait": "等待",
        "step wait (no steps)": "步等待（没有步）",
        "step wait, no steps and wait per step": "步等待、没有步、每步等待",
        "A sentence that nobody has translated.": "A sentence that nobody has translated.",
    }
    assert dict(zip(cases, say(cases, tmp_path, {"messages": messages, "rules": {}}), strict=True)) == cases


@pytest.mark.slow
def test_the_report_of_no_example_is_left_in_english(tmp_path: Path) -> None:
    texts = sorted(shown())
    left = [
        f"{text} → {told}" for text, told in zip(texts, say(texts, tmp_path), strict=True)
        if not AS_THEY_ARE.fullmatch(text) and is_english(told)
    ]  # fmt: skip
    assert len(texts) > 500
    assert left == []


def is_english(told: str) -> bool:
    bare = CODE.sub("", told)
    return bool(PROSE.search(bare)) or (not CHINESE.search(bare) and bool(re.search("[a-z]{2}", bare)))


def test_no_page_of_a_rule_is_left_in_english() -> None:
    for rule, page in BUILDER["translations"](ROOT, "zh")["rules"].items():
        parts = [part for part in page.split("\n\n") if not part.startswith("# ")]
        assert len(parts) > 8, rule
        assert [part for part in parts if not CHINESE.search(part)] == [], rule


@cache
def shown() -> frozenset[str]:
    """What readers see of the reports of all examples, with the problem and without."""
    found: set[str] = set()
    for rule in RULES.load().values():
        for fixed in (False, True):
            synth = Synth()
            rule.example(synth, fixed)
            found.update(texts_of(finite(report_document(assemble(synth.run())))))
    return frozenset(found)


def texts_of(document: Any) -> Iterator[str]:
    """The texts of a report but names and code."""
    yield from (document["verdict"]["sentence"], document["verdict"]["next"])
    for finding in document["findings"]:
        yield finding["title"]
        yield from (one["label"] for one in finding["evidence"])
        yield from (one["text"] for one in finding["advice"])
        yield from (one["of"] for one in finding["where"])
        yield from (finding["gain"]["basis"],) if finding["gain"] else ()
    for section in document["sections"]:
        yield section["title"]
        yield from section["missing"].values() if section["missing"] else ()
        for block in section["blocks"]:
            yield from of_block(block)


def of_block(block: Any) -> Iterator[str]:
    yield block.get("title", "")
    match block["kind"]:
        case "text":
            yield block["text"]
        case "table":
            for at, column in enumerate(block["columns"]):
                yield from (column["name"], column["meaning"])
                cells = [] if column["name"] in NAMES else [row[at] for row in block["rows"]]
                yield from (cell for cell in cells if isinstance(cell, str))
        case "bars":
            yield from (part["label"] for part in block["parts"])
        case "lines":
            yield from (block["x"], *(one["label"] for one in (*block["lines"], *block["limits"])))
        case "heatmap":
            yield from (block["x"], block["y"])
        case "lanes":
            yield from (*block["kinds"], *(lane["label"] for lane in block["lanes"]))
        case "flame":
            yield block["note"]
        case "roofline":
            yield from (point["label"] for point in block["points"])
        case _:
            pass
