"""Titles and headings in other languages: nothing fails for one that is not translated, nothing stays that is gone."""

import re
import runpy
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from stepscope.core.run import Run

ROOT = Path(__file__).parents[1]
TOOL: dict[str, Any] = runpy.run_path(str(ROOT / "tools" / "untranslated.py"))
examples: Callable[[], Iterator[Run]] = TOOL["examples"]
names_of: Callable[[Run], Iterator[str]] = TOOL["names_of"]
translations: Callable[[str], list[str]] = TOOL["translations"]
untranslated: Callable[[Iterable[str], Iterable[str]], list[str]] = TOOL["untranslated"]


@cache
def names() -> frozenset[str]:
    return frozenset(name for run in examples() for name in names_of(run))


def sources() -> str:
    return "\n".join(file.read_text(encoding="utf-8") for file in sorted((ROOT / "src" / "stepscope").rglob("*.py")))


@pytest.mark.slow
def test_what_is_not_translated_is_reported(record_property: Callable[[str, object], None]) -> None:
    known = translations("zh")
    assert "Input pipeline" in known
    assert untranslated(["A new section", "Operators", "Memory of CUDA 0, rank 3"], known) == ["A new section"]
    assert "Input pipeline" in names()
    record_property("untranslated", ", ".join(untranslated(names(), known)))  # told in the results, held against nobody


def test_no_translation_is_of_a_name_that_is_gone() -> None:
    """Titles may be put together from parts, so that only their words can be looked for."""
    text = sources()
    gone = [name for name in translations("zh") if not all(_stands(part, text) for part in name.split("*"))]
    assert gone == []


def _stands(part: str, text: str) -> bool:
    return all(re.search(rf"\b{re.escape(word)}", text) for word in re.findall(r"[A-Za-z]+", part))
