"""Which of the user's lines loading spends its time at."""

from collections.abc import Mapping

import pytest

from stepscope.analyses.input_pipeline.lib.hot_lines import hot_lines, is_definition, statement_lines
from stepscope.analyses.lib.line_places import LOADING_TIME
from stepscope.core.finding import Place
from stepscope.core.synth import Synth

FILE = "/job.py"
OUTER = f"{FILE}:2 __getitem__"
TRANSFORM = Place(file=FILE, line=5, symbol="__main__.Smooth")


def loading(*stacks: tuple[int, str, Mapping[str, object]]) -> Synth:
    """Samples of a worker, 50 ms each: how many, the innermost frame `line function`, and other columns."""
    synth = Synth().add("loaders", loader=0, train=True, num_workers=1)
    number = 0
    for count, frame, more in stacks:
        line, function = frame.split()
        columns = {"frames": [OUTER, f"{FILE}:{frame}"], "text": f"line {line}", "worker": 0, **more}
        for _ in range(count):
            synth.add(
                "worker_stacks", pid="100", loader=0, time=number * 50_000_000, weight=50_000_000, file=FILE,
                line=int(line), function=function, **columns,
            )  # fmt: skip
            number += 1
    return synth


def told(places: tuple[Place, ...]) -> list[tuple[int, float | None]]:
    return [(place.line, None if place.share is None else round(place.share, 3)) for place in places]


def test_what_a_call_takes_is_at_the_innermost_lines_below_it() -> None:
    below: dict[str, object] = {"frames": [OUTER, f"{FILE}:7 __call__", f"{FILE}:40 helper"]}
    run = loading((6, "40 helper", below), (3, "7 __call__", {}), (1, "2 __getitem__", {"frames": [OUTER]})).run()
    assert told(hot_lines(run, 0, TRANSFORM)) == [(40, 0.6), (7, 0.3)]
    (first, *_) = hot_lines(run, 0, TRANSFORM)
    assert (first.symbol, first.text, first.of) == ("helper", "line 40", LOADING_TIME)


def test_the_line_of_a_definition_comes_last() -> None:
    run = loading((6, "5 __call__", {"text": "def __call__(self, x):"}), (2, "7 __call__", {})).run()
    assert told(hot_lines(run, 0, TRANSFORM)) == [(7, 0.25), (5, 0.75)]
    assert all(map(is_definition, ("async def f():", "class Rows(Dataset):", "    @property", "def f():")))
    assert not any(map(is_definition, ("default = 3", "classes[3]", "x = y @ z", "")))


def test_a_call_ends_where_the_next_known_one_of_its_file_begins() -> None:
    synth = loading((6, "7 __call__", {}), (6, "12 __call__", {}))
    for line, name in ((5, "__main__.Smooth"), (10, "__main__.Scale")):
        synth.span("transform", 0, 0, 0, 10, cpu=1, name=name, file=FILE, line=line)
    synth.span("fetch", 0, 0, 0, 20, cpu=2)
    assert told(hot_lines(synth.run(), 0, TRANSFORM)) == [(7, 0.5)]


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("numpy.load", {"call": "numpy/lib/_npyio_impl.py:400 load"}),
        ("json.load", {"call": "json/__init__.py:290 load"}),
        ("pickle.load", {"expression": "pickle.load(file)"}),
        ("h5py.File.__init__", {"call": "h5py/_hl/files.py:500 __init__", "expression": "h5py.File(self.path)"}),
        ("PIL.Image.open", {"call": "torchvision/datasets/folder.py:9 load", "between": ["PIL/Image.py open"]}),
        ("torchvision.transforms.Resize", {"between": ["torchvision/transforms/transforms.py Resize.forward"]}),
    ],
)
def test_a_librarys_function_is_found_at_the_line_that_calls_it(name: str, columns: dict[str, object]) -> None:
    run = loading((2, "8 read", columns), (9, "9 read", {"call": "numpy/lib/other.py:1 save"})).run()
    assert told(hot_lines(run, 0, calls=name)) == [(8, 0.182)]


def test_source_tells_which_function_begins_there() -> None:
    synth = loading((6, "7 __call__", {}), (6, "20 __getitem__", {"frames": [f"{FILE}:20 __getitem__"]}))
    synth.add("sources", file=FILE, line=6, text="    def __call__(self, x):")
    assert told(hot_lines(synth.run(), 0, TRANSFORM)) == [(7, 0.5)]


def test_without_a_sample_in_it_a_call_is_named_by_its_definition() -> None:
    run = loading((6, "7 __call__", {})).run()
    elsewhere = Place(file=FILE, line=100, symbol="__main__.unseen")
    assert hot_lines(run, 0, elsewhere) == (elsewhere,)
    assert hot_lines(run, 0, calls="numpy.load") == ()
    assert hot_lines(Synth().run(), 0, elsewhere) == (elsewhere,)


def test_of_all_loading_lines_with_few_samples_or_a_small_share_are_left_out() -> None:
    own: dict[str, object] = {"frames": [f"{FILE}:60 collate"]}
    few = loading((60, "7 __call__", {}), (5, "8 __call__", {}), (1, "60 collate", own)).run()
    assert told(hot_lines(few, 0)) == [(7, 0.909)]
    torch = {"file": "torch/utils/data/_utils/fetch.py", "frames": ["torch/utils/data/_utils/fetch.py:54 fetch"]}
    synth = loading((10, "7 __call__", {}))
    for number in range(10):
        synth.add("worker_stacks", loader=0, worker=0, time=number, weight=50_000_000, line=54, **torch)
    assert told(hot_lines(synth.run(), 0)) == [(7, 0.5)]


def test_a_statement_of_a_function_that_takes_no_time() -> None:
    synth = loading((6, "7 __call__", {}))
    for line, text in ((9, "    def __getitem__(self, index):"), (10, ""), (11, "        return self.rows[index]")):
        synth.add("sources", file=FILE, line=line, text=text)
    data_set = Place(file=FILE, line=9, symbol="__main__.Rows")
    (place,) = statement_lines(synth.run(), 0, data_set, ("return", "yield"))
    assert (place.line, place.text, place.share) == (11, "return self.rows[index]", None)
    assert told(statement_lines(synth.run(), 0, data_set, ("for",))) == [(11, None)]
    assert told(statement_lines(synth.run(), 0, TRANSFORM, ("for",))) == [(7, 1.0)]


def test_one_worker_alone() -> None:
    run = loading((6, "7 __call__", {}), (3, "8 __call__", {"worker": 1})).run()
    assert told(hot_lines(run, 0, TRANSFORM, worker=1)) == [(8, 1.0)]


def test_without_workers_it_is_what_runs_while_training_waits() -> None:
    synth = Synth().add("loaders", loader=0, train=True, num_workers=0)
    for step in range(12):
        synth.step(step, 100 * step, 100 * step + 100, data_wait=60, forward=20, backward=20)
        synth.sample(
            step, 100 * step, 30, "data_wait", FILE, 50, function="main", text="for batch in loader:",
            call="torch/utils/data/dataloader.py:725 __next__", frames=[f"{FILE}:50 main"],
        )  # fmt: skip
        frames = [f"{FILE}:50 main", f"{FILE}:7 __call__"]
        synth.sample(step, 100 * step + 30, 30, "data_wait", FILE, 7, function="__call__", frames=frames)
        synth.sample(step, 100 * step + 60, 40, "forward", FILE, 52, function="main", frames=frames[:1])
    assert told(hot_lines(synth.run(), 0)) == told(hot_lines(synth.run(), 0, TRANSFORM)) == [(7, 1.0)]
