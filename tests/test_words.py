"""One word for a thing: words, names and phrases that were replaced, and British spellings, stay away from readers."""

import re
from pathlib import Path

import pytest

from stepscope.core.schema import TABLES

ROOT = Path(__file__).parents[1]
FOLDERS = ("src/stepscope", "web-app/src", "tools", "docs", "bench", "scenarios", "examples")
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
SUFFIXES = {".py", ".pyi", ".ts", ".css", ".json", ".toml", ".h", ".c", ".cpp", ".hpp", ".md"}
BUILT = "static"
"""A folder that is never committed."""

PHRASES = (
    "mean wait for batches",
    "share of the mean step",
    "mean CPU time of transform",
    "share of the CPU time of making a batch",
    "part of making a batch",
    "waits for no core",
    "cores for this rank",
    "cores that the job used",
    "above the median, per long step",
    "mean of the same over all steps",
    "median distance in steps",
    "idle time without a cause",
    "multiprocessors they leave empty",
    "waits for the next batch",
    "for cores that its workers have",
    "the device of this run, computes",
    "proves little",
    "Nothing found: none",
    "of the rules that looked sees",
    "saves {",
    "this part 2 to 10 times as fast",
    "takes a K-th",
    "What a trace holds besides",
    "What a trace watches",
    "Lines about the pace",
    "in so many processes",
    "Parse traces anew",
    "nothing wins is an answer",
    "Look behind a figure",
    "one mended step by step",
    "another input pipeline bring",
    "it takes an environment with the packages",
    "goes by in",
    "time goes by",
    "by hand",
    "is light",
    "can mend",
    "or mended",
)
"""Labels and sentences that plainer ones replaced, as far as they were constant."""

NAMES = (
    "purse", "Purse", "WaitingInput", "waiting_input", "Waking", "waking", "crowding", "headroom", "Race", "Board",
    "Visit", "visit_of", "first_guess", "listings", "steadiness", "settled_steps", "mended", "mending",
    "mended_trace", "Standby", "standby", "Watching", "_standby", "_watching", "_remembered", "late_there",
)  # fmt: skip
"""Identifiers that plainer ones replaced. Those that are plain words, too, are checked as modules or columns."""

MODULES = {
    "purse", "lane", "held", "subjects", "receiving", "made", "unseen", "roles", "mapped", "estimate", "headroom",
    "foreign", "part", "settled", "adjusted", "crowding", "covering", "roof", "late", "placement", "waiting_input",
    "race", "visit", "guess", "side", "divisions", "listings", "steadiness", "moves", "sums", "mended", "mending",
    "standby", "watching", "remembered",
}  # fmt: skip
COLUMNS = {"asked", "begun", "made", "needed", "had", "late_there", "ahead", "starved", "putting", "crowded"}
CLASSES = ("Change", "Source", "Lane", "Part", "Frame", "Group", "Unchecked")
"""Names that meant a different thing in several modules each."""

BRITISH = re.compile(
    r"(?:utilis|serialis|synchronis|normalis|initialis|recognis|tokenis|organis|summaris|optimis|minimis|"
    r"maximis|colour|behaviour|neighbour|centre|labelled|analysed|analysing)"
)


def texts() -> list[tuple[str, str]]:
    """Path and text of every file that is searched."""
    files = [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*"))]
    files += [ROOT / page for page in PAGES]
    return [
        (str(file.relative_to(ROOT)), file.read_text(encoding="utf-8"))
        for file in files
        if file.suffix in SUFFIXES and BUILT not in file.parts
    ]


TEXTS = texts()
WORDS = {path: set(re.findall(r"\w+", text)) for path, text in TEXTS}
SOURCE = sorted((ROOT / "src" / "stepscope").rglob("*.py"))


def test_there_is_something_to_search() -> None:
    whole = {"src", "web-app", "tools", "docs", "bench", "scenarios", "examples", *PAGES}
    assert {path.split("/")[0] for path, _ in TEXTS} == whole


@pytest.mark.parametrize("phrase", PHRASES)
def test_a_phrase_that_was_replaced_is_gone(phrase: str) -> None:
    loose = re.compile(r"\s+".join(map(re.escape, phrase.split())))
    assert [path for path, text in TEXTS if loose.search(text)] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_was_replaced_is_gone(name: str) -> None:
    assert [path for path, words in WORDS.items() if name in words] == []


def test_no_module_has_a_name_that_was_replaced() -> None:
    modules = [*SOURCE, *(ROOT / "tests").rglob("*.py"), *(ROOT / "web-app" / "src").rglob("*.ts")]
    stems = {file: file.stem.removeprefix("test_").strip("_") for file in modules}
    assert [str(file.relative_to(ROOT)) for file, stem in stems.items() if stem in MODULES] == []


def test_no_column_has_a_name_that_was_replaced() -> None:
    assert [
        (table, column.name) for table, columns in TABLES.items() for column in columns if column.name in COLUMNS
    ] == []
    page = (ROOT / "docs" / "tables.md").read_text(encoding="utf-8")
    assert COLUMNS & set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == set()


def test_a_class_of_several_meanings_is_defined_once() -> None:
    defines = re.compile(rf"^(?:class |type )?({'|'.join(CLASSES)})\b(?: = |[(:\[])", re.MULTILINE)
    defined = [
        name
        for path, text in TEXTS
        if path.startswith("src/") and path.endswith(".py")
        for name in defines.findall(text)
    ]
    assert sorted(defined) == sorted(CLASSES), "or it has a plainer name now, and leaves this list"


def test_spelling_is_american() -> None:
    assert [(path, word) for path, words in WORDS.items() for word in words if BRITISH.search(word.lower())] == []
