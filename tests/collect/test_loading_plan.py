"""What is replaced in a fetch is settled for several fetches, and follows what the job changes."""

import sys
import types
from pathlib import Path
from typing import Any

import pytest

from stepscope.collect.dataloader import calls as timed_calls
from stepscope.collect.dataloader.batch_recorder import BatchRecorder
from stepscope.collect.dataloader.calls import Calls
from stepscope.collect.dataloader.spans import SpanFile
from stepscope.collect.mmap_file import reserves

from .test_loading_calls import Chain, Flip, Letters, stages


@pytest.fixture
def recorder(tmp_path: Path) -> BatchRecorder:
    if not reserves(str(tmp_path)):
        pytest.skip("needs a file system that reserves blocks")
    return BatchRecorder(SpanFile(str(tmp_path / "main-1-2"), {"kind": "main"}), 1)


def test_what_the_job_changes_between_fetches_is_what_is_called(recorder: BatchRecorder) -> None:
    class Loudest:
        def __call__(self, sample: str) -> str:
            return sample.upper()

    def first(sample: str, mark: str = "1") -> str:
        return sample + mark

    def other(sample: str, mark: str = "?") -> str:
        return mark + sample

    dataset, calls, found = Letters(Chain(Loudest(), first)), Calls(recorder), []

    def fetch() -> None:
        calls.begin([dataset])
        sample = dataset[0]
        calls.end()
        found.append((sample, len(stages(recorder))))

    for _ in range(3):
        fetch()
    first.__defaults__ = ("2",)
    fetch()
    first.__code__ = other.__code__
    fetch()
    Loudest.__call__ = lambda self, sample: sample * 2  # type: ignore[method-assign]
    fetch()
    dataset.transform.transforms.append(Flip())  # is timed before long
    for _ in range(timed_calls.PLANNED_FOR + 1):
        fetch()
    texts = ["A!1"] * 3 + ["A!2", "2A!", "2a!a!"] + ["!a!a2"] * (timed_calls.PLANNED_FOR + 1)
    assert [text for text, _ in found] == texts
    per_fetch = [after - before for (_, before), (_, after) in zip([("", 0), *found], found, strict=False)]
    assert (set(per_fetch[:6]), per_fetch[-1]) == ({3}, 4)


def test_a_plan_is_made_anew_after_the_first_fetch_and_when_a_module_was_imported(
    recorder: BatchRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    calls, dataset = Calls(recorder), Letters(Flip())
    monkeypatch.setattr(Calls, "_make_plan", _counting(Calls._make_plan, made))
    for _ in range(4):
        calls.begin([dataset])
        calls.end()
        made.append("fetch")
    monkeypatch.setitem(sys.modules, "a_module_of_a_test", types.ModuleType("a_module_of_a_test"))
    calls.begin([dataset])
    calls.end()
    assert made == ["plan", "fetch", "plan", "fetch", "fetch", "fetch", "plan"]


def _counting(make: Any, made: list[str]) -> Any:
    def counted(calls: Calls, datasets: list[Any]) -> None:
        made.append("plan")
        make(calls, datasets)

    return counted
