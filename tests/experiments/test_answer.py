"""What tuning found, as a page, as a document, and as what is kept for the next time."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from stepscope.compare.statistics import Ratio
from stepscope.core.finding import Place
from stepscope.experiments.change import CodeChange
from stepscope.experiments.document import document_of
from stepscope.experiments.kept import recall, remember
from stepscope.experiments.loader import Row, TuneAnswer, Why
from stepscope.experiments.page import page_of, sentence_of
from stepscope.experiments.trial_result import AS_IT_IS, Loader, Setting
from stepscope.render.format import text
from stepscope.render.json import dumps
from stepscope.render.markdown import page_markdown

FOUR, EIGHT = Setting((("num_workers", 4),)), Setting((("num_workers", 8),))
COMMAND = ["python", "train.py"]


def result(why: Why = "faster") -> TuneAnswer:
    loader = Loader(
        dataset="Rows", workers=0, prefetch=None, persistent=False, pinned=False, place=None, made_by=None
    )  # fmt: skip
    rows = (
        Row(setting=AS_IT_IS, median=30e6, wait=0.5, ratio=None, trials=2, steps=120),
        Row(
            setting=FOUR, median=15e6, wait=0.01, ratio=Ratio(estimate=2.0, low=1.9, high=2.1), trials=2, steps=120
        ),
        Row(setting=EIGHT, median=None, wait=None, ratio=None, trials=1, steps=0, left_out="no {memory}"),
    )  # fmt: skip
    return TuneAnswer(
        winner=FOUR if why == "faster" else None, why=why, rows=rows, loader=loader, seconds=42.0, trials=5
    )


CHANGE = CodeChange(place=Place(file="/train.py", line=7), code="DataLoader({}, num_workers=4)", whole=True)


def test_the_page_says_who_wins_and_what_to_write() -> None:
    page = page_markdown(page_of(result(), CHANGE, COMMAND, "runs")).replace("\\_", "_")
    assert "**num_workers=4: 2× as fast as the script as it is (95 % interval 1.9–2.1).**" in page
    assert "num_workers=8: no {memory}." in page
    assert "Change in /train.py:7 to:" in page
    assert "DataLoader({}, num_workers=4)" in page
    assert "5 trials in 42 s, recorded in runs." in page


def test_the_page_says_that_other_programs_were_at_work() -> None:
    def said(others: float | None) -> bool:
        page = page_markdown(page_of(replace(result(), others=others), CHANGE, COMMAND, "runs"))
        return "Other programs used up to 30 % of the cores during a trial" in page

    assert said(0.3)
    assert not said(0.04)
    assert not said(None)


@pytest.mark.parametrize(
    ("why", "begin"),
    [
        ("nothing-waits", "No change: 50 % of each step waits"),
        ("refused", "Nothing was tried:"),
        ("failed", "The job trains as it is, and with no other"),
        ("budget", "No clear winner: the time was over"),
        ("not-clear", "No clear winner: no setting is faster"),
    ],
)
def test_that_nothing_wins_is_an_answer(why: Why, begin: str) -> None:
    assert text(sentence_of(result(why))).startswith(begin)


def test_the_document_holds_what_the_page_does() -> None:
    found = json.loads(dumps(document_of(result(), CHANGE, COMMAND, "runs")))
    assert (found["schema"], found["version"], found["why"]) == ("stepscope-tune-loader", 2, "faster")
    assert found["winner"] == {"num_workers": 4}
    assert found["tried"][1]["times_as_fast"] == {"estimate": 2.0, "low": 1.9, "high": 2.1}
    assert found["tried"][2]["left_out"] == "no {memory}"
    assert found["change"]["code"] == "DataLoader({}, num_workers=4)"
    assert json.loads(dumps(document_of(result("budget"), None, COMMAND, "runs")))["change"] is None


def test_what_won_is_kept_until_nothing_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPSCOPE_CACHE_DIR", str(tmp_path))
    assert recall(COMMAND, tmp_path, 2.0) is None
    remember(result(), COMMAND, tmp_path, 2.0)
    before = recall(COMMAND, tmp_path, 2.0)
    assert before is not None
    assert (before.setting, before.times_as_fast, before.dataset) == (FOUR, 2.0, "Rows")
    assert recall(COMMAND, tmp_path, 4.0) is None
    assert recall([*COMMAND, "--more"], tmp_path, 2.0) is None
    remember(result("budget"), COMMAND, tmp_path, 2.0)
    assert recall(COMMAND, tmp_path, 2.0) is not None
    remember(result("not-clear"), COMMAND, tmp_path, 2.0)
    assert recall(COMMAND, tmp_path, 2.0) is None


def test_a_damaged_memory_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPSCOPE_CACHE_DIR", str(tmp_path))
    remember(result(), COMMAND, tmp_path, 2.0)
    (kept,) = (tmp_path / "tuned").iterdir()
    for content in ("", "[]", "{}", '{"winner": 3}'):
        kept.write_text(content)
        assert recall(COMMAND, tmp_path, 2.0) is None
