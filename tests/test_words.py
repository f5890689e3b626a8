"""One word for a thing: phrases that were replaced, and British spellings, stay away from what a user reads."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("src/stepscope", "web-app/src", "tools")
"""What is searched; docs/ belongs here once its pages are written anew."""

SUFFIXES = {".py", ".pyi", ".ts", ".css", ".json", ".toml", ".h", ".c", ".cpp", ".hpp"}
BUILT = "static"
"""A folder that is never committed."""

PHRASES = (
    "mean wait for batches",
    "share of the mean step",
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
    "goes by in",
    "time goes by",
    "by hand",
    "is light",
    "can mend",
    "or mended",
)
BRITISH = re.compile(
    r"[a-z]*(?:utilis|serialis|synchronis|normalis|initialis|recognis|tokenis|organis|summaris|colour|behaviour|"
    r"neighbour|centre|labelled|analysed|analysing)[a-z]*",
    re.IGNORECASE,
)
NAMES_OF_FILES = {"colours"}
"""Words that a British spelling may stand in: they name a file."""


def texts() -> list[tuple[str, str]]:
    """Path and text of every file that is searched."""
    files = (file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*")))
    return [
        (str(file.relative_to(ROOT)), file.read_text(encoding="utf-8"))
        for file in files
        if file.suffix in SUFFIXES and BUILT not in file.parts
    ]


TEXTS = texts()


def test_there_is_something_to_search() -> None:
    assert {path.split("/")[0] for path, _ in TEXTS} == {"src", "web-app", "tools"}


@pytest.mark.parametrize("phrase", PHRASES)
def test_a_phrase_that_was_replaced_is_gone(phrase: str) -> None:
    loose = re.compile(r"\s+".join(map(re.escape, phrase.split())))
    assert [path for path, text in TEXTS if loose.search(text)] == []


def test_spelling_is_american() -> None:
    found = {
        (path, word) for path, text in TEXTS for word in BRITISH.findall(text) if word.lower() not in NAMES_OF_FILES
    }
    assert sorted(found) == []
