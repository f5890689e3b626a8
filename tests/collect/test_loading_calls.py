"""Which calls of a data set are timed in a fetch, and that all is put back."""

import copy
import functools
import inspect
import json
import pickle
import sys
import threading
import time
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepscope.collect.dataloader import arguments
from stepscope.collect.dataloader import calls as timed_calls
from stepscope.collect.dataloader.batch_recorder import BatchRecorder
from stepscope.collect.dataloader.calls import Calls
from stepscope.collect.dataloader.spans import DECODE, LABEL, OTHER_LABELS, TRANSFORM
from stepscope.run_format.records import SPAN


class Flip:
    def __call__(self, sample: str) -> str:
        return sample[::-1]


class Loud(Flip):
    """Inherits its `__call__`."""


class Chain:
    def __init__(self, *transforms: Any) -> None:
        self.transforms = list(transforms)

    def __call__(self, sample: str) -> str:
        for transform in self.transforms:
            sample = transform(sample)
        return sample


class Letters:
    def __init__(self, transform: Any) -> None:
        self.transform = transform

    def __getitem__(self, index: int) -> Any:
        return self.transform("abc"[index] + "!")


class Half:
    def __call__(self, sample: Any) -> Any:
        return sample[: len(sample) // 2]


class Pictures:
    def __init__(self) -> None:
        self.transform = Half()

    def __getitem__(self, index: int) -> Any:
        return self.transform(np.zeros((10, 4)))


def lower(sample: str) -> str:
    return sample.lower()


def stages(recorder: BatchRecorder) -> list[int]:
    recorder.flush()
    content = Path(recorder.spans.path + ".bin").read_bytes()
    found = (
        SPAN.struct.unpack_from(content, at) for at in range(64, len(content) - SPAN.struct.size + 1, SPAN.struct.size)
    )
    return [row[-1] for row in found if row[-1]]


def test_every_call_is_timed_once_and_the_result_is_the_same(recorder: BatchRecorder) -> None:
    flip, chain = Flip(), Chain(Loud(), lower, functools.partial(str.replace, "!!", "?"))
    chain.transforms[-1] = functools.partial(str.strip)  # of C: it cannot be timed, and works
    dataset = Letters(Chain(flip, flip, chain))
    bare, calls = dataset[1], Calls(recorder)
    calls.begin([dataset, dataset])
    assert dataset[1] == bare
    calls.end()
    assert stages(recorder) == [TRANSFORM] * 6  # flip twice, Loud, lower, the inner chain and the outer


def test_the_first_samples_of_a_transform_are_measured(recorder: BatchRecorder) -> None:
    dataset = Pictures()
    for _ in range(3):
        calls = Calls(recorder)
        calls.begin([dataset])
        for index in range(4):
            dataset[index]
        calls.end()
        recorder.tell_sizes()
    rows = [json.loads(line) for line in Path(recorder.spans.path + ".jsonl").read_text().splitlines()]
    names = {row["id"]: row["name"].rpartition(".")[2] for row in rows if row["kind"] == "name"}
    told = [(names[name], *size) for row in rows if row["kind"] == "sizes" for name, *size in row["sizes"]]
    assert told == [("Half", 40, 20, 320)] * 8


def look() -> tuple[Any, ...]:
    """All that could be changed where calls are timed."""
    import torch

    things = (
        Flip.__call__,
        Loud.__call__,
        lower,
        json.load,
        np.load,
        torch.autograd.profiler.record_function.__enter__,
    )
    seen = [(id(one), one.__code__, one.__defaults__, inspect.signature(one), vars(one)) for one in things]
    kinds = [dict(vars(kind)) for kind in (Flip, Loud, Chain)]
    return seen, kinds, pickle.load, pickle.dumps([lower, Flip, Chain]), sys.getprofile(), sys.gettrace()


@pytest.mark.slow
def test_nothing_looks_different_while_calls_are_watched(recorder: BatchRecorder) -> None:
    seen: list[Any] = []

    def looking(sample: str) -> str:
        seen.append(look())
        thread = threading.Thread(target=lambda: seen.append(look()))
        thread.start()
        thread.join()
        return sample

    dataset = Letters(Chain(Loud(), lower, looking))
    copy.deepcopy(dataset)  # Python notes the classes' slots in them
    before, calls = look(), Calls(recorder)
    calls.begin([dataset])
    dataset[0]
    assert isinstance(copy.deepcopy(dataset).transform.transforms[0], Loud)
    calls.end()
    assert [*seen, look()] == [before] * 3
    assert stages(recorder) == [TRANSFORM] * 4


def upper(sample: str) -> str:
    return sample.upper()


def joined(sample: str, mark: str = "?", *, times: int = 2) -> str:
    return sample + mark * times


class Steps:
    """Holds its calls in containers of its own names."""

    def __init__(self) -> None:
        self.steps: list[Any] = [lower, self.turned, functools.partial(joined, mark="!")]
        self.last: Any = (Flip(), str.strip)
        self.by_name: dict[Any, Any] = {"loud": Loud(), "lower": lower, 3: (lower,)}
        self.index = [upper] * 1000  # no list of transforms
        self.chosen: Any = None

    def turned(self, sample: str) -> str:
        return sample[::-1]

    def __getitem__(self, index: int) -> Any:
        sample: Any = "abc"[index] + "?"
        for step in (*self.steps, *self.last, *self.by_name.values()):
            sample = step[0](sample) if isinstance(step, tuple) else step(sample)
        return sample + self.index[7]("x")


def test_calls_in_lists_tuples_and_dicts_of_any_name_are_timed(recorder: BatchRecorder) -> None:
    dataset = Steps()
    before, bare = dict(vars(dataset)), dataset[1]
    held = [list(dataset.steps), dict(dataset.by_name)]
    calls = Calls(recorder)
    calls.begin([dataset])
    assert dataset[1] == bare
    assert type(dataset.last) is tuple
    calls.end()
    assert vars(dataset) == before
    assert all(vars(dataset)[name] is value for name, value in before.items())
    assert [dataset.steps, dataset.by_name] == held
    assert stages(recorder) == [TRANSFORM] * 7  # three steps, one last, three by name: none of C or of the long list
    told = [json.loads(line) for line in Path(recorder.spans.path + ".jsonl").read_text().splitlines()]
    assert {row["name"].rpartition(".")[2] for row in told if "id" in row} >= {"lower", "turned", "Flip", "joined"}


def test_what_the_job_changes_in_a_fetch_stays_changed(
    recorder: BatchRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Flip, "__call__", Flip.__call__)

    def other(sample: str) -> str:
        return "other" + sample

    def changing(sample: str) -> str:
        return sample

    dataset, calls = Steps(), Calls(recorder)
    dataset.steps.append(changing)
    first, *rest = dataset.steps
    calls.begin([dataset])
    dataset.steps.reverse()
    dataset.last = (lower,)
    Flip.__call__ = lambda self, sample: "new"  # type: ignore[method-assign]
    changing.__code__ = other.__code__
    assert changing("a") == "othera"
    calls.end()
    assert all(one is was for one, was in zip(dataset.steps, [*reversed(rest), first], strict=True))
    assert (dataset.last, Flip()("a"), changing("a")) == ((lower,), "new", "othera")
    assert lower("A") == "a"
    assert stages(recorder) == []


def test_functions_of_every_shape_do_what_they_do(recorder: BatchRecorder) -> None:
    mark, count = "!", 0

    def closed(sample: str, *more: str, end: str = "?") -> str:
        nonlocal count
        count += 1
        return sample + mark + "".join(more) + end

    def raising(sample: str) -> str:
        raise ValueError(sample + mark)

    def doubled(sample: str = mark) -> str:
        return sample * 2

    class Held:
        def __init__(self) -> None:
            self.calls: dict[str, Any] = {"closed": closed, "raising": raising, "doubled": doubled}

    dataset, calls = Held(), Calls(recorder)
    codes = [call.__code__ for call in dataset.calls.values()]
    calls.begin([dataset])
    assert closed("a", "b", end="c") == "a!bc"
    assert closed("a") == "a!?"
    assert count == 2
    assert dataset.calls["doubled"]() == "!!"
    with pytest.raises(ValueError, match="a!"):
        raising("a")
    calls.end()
    assert [call.__code__ for call in dataset.calls.values()] == codes
    assert closed("a") == "a!?"
    assert stages(recorder) == [TRANSFORM] * 4


def test_a_generator_is_timed_in_later_batches_too(recorder: BatchRecorder) -> None:
    """It has taken the function in the fetch that started it."""

    class Stream:
        def __init__(self) -> None:
            self.stages: list[Any] = [self.produced, lower]

        def produced(self, source: Any) -> Any:
            yield from source

        def __iter__(self) -> Any:
            first, second = self.stages
            for one in first(iter("ABCD")):
                yield second(one)

    dataset, found = Stream(), []
    samples = iter(dataset)
    for batch in range(4):
        calls = Calls(recorder)
        if batch % 2 == 0:
            calls.begin([dataset])
        sample = next(samples)
        calls.end()
        found.append((sample, len(stages(recorder))))
    assert found == [("a", 1), ("b", 1), ("c", 2), ("d", 2)]


def test_a_transform_that_raises_raises(recorder: BatchRecorder) -> None:
    dataset, calls = Letters(lower), Calls(recorder)
    calls.begin([dataset])
    with pytest.raises(AttributeError):
        dataset.transform(3)
    calls.end()
    assert dataset.transform is lower
    assert stages(recorder) == [TRANSFORM]


def test_another_thread_is_left_alone(recorder: BatchRecorder) -> None:
    dataset, calls = Letters(Flip()), Calls(recorder)
    calls.begin([dataset])
    thread = threading.Thread(target=dataset.__getitem__, args=(0,))
    thread.start()
    thread.join()
    calls.end()
    assert stages(recorder) == []


def test_decoding_is_apart_and_short_calls_of_it_are_left_out(
    recorder: BatchRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = types.ModuleType("decoder_of_a_test")
    vars(module)["decode"] = time.sleep
    monkeypatch.setitem(sys.modules, "decoder_of_a_test", module)
    monkeypatch.setattr(timed_calls, "LEAVES", ((DECODE, "decoder_of_a_test", "", "decode"),))
    monkeypatch.setattr(timed_calls, "SHORT_NS", 500_000_000)  # a busy machine takes long for nothing
    calls, before = Calls(recorder), module.decode
    calls.begin([])
    module.decode(0)
    module.decode(0.6)
    calls.end()
    assert module.decode is before
    assert stages(recorder) == [DECODE]


def test_a_data_set_whose_attributes_raise_is_timed_as_a_whole(recorder: BatchRecorder) -> None:
    class Hostile:
        @property
        def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
            raise RuntimeError("no")

    calls = Calls(recorder)
    calls.begin([Hostile()])
    calls.end()
    assert stages(recorder) == []


def test_a_function_can_be_pickled_while_it_is_timed(recorder: BatchRecorder) -> None:
    dataset, calls = Letters(lower), Calls(recorder)
    calls.begin([dataset])
    assert pickle.loads(pickle.dumps(dataset.transform)) is lower
    assert copy.deepcopy(dataset.transform) is lower
    calls.end()
    assert stages(recorder) == []


@pytest.mark.slow
def test_labels_of_the_users_code_are_spans_where_they_are_entered(
    recorder: BatchRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch.profiler import record_function

    monkeypatch.setattr(arguments, "LABELS_LIMIT", 4)
    before, calls = dict(vars(record_function)), Calls(recorder)
    calls.begin([])
    with pytest.raises(ZeroDivisionError), record_function("outer"), record_function("inner"):
        1 / 0  # noqa: B018
    with record_function("enumerate(DataLoader)#x.__next__"):
        assert stages(recorder) == [LABEL] * 2
    for index in range(9):
        with record_function(f"sample {index}"):
            pass
    calls.end()
    with record_function("outer"):
        pass
    assert dict(vars(record_function)) == before
    assert stages(recorder) == [LABEL] * 11
    told = [json.loads(line) for line in Path(recorder.spans.path + ".jsonl").read_text().splitlines()]
    labels = {row["name"]: row["file"] for row in told if row.get("file") in (__file__, None) and row.get("id")}
    assert labels["outer"] == labels["inner"] == __file__
    assert labels[OTHER_LABELS] is None
