"""Files for speedscope: what the published format asks for, and times that are those of the tables."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.core.errors import MissingData
from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth
from stepscope.export.speedscope import profiles, speedscope_file
from stepscope.storage import open_run

from ..command import stepscope

MAIN, CALL = "/me/train.py:9 main", "torch/nn/m.py:5 call"


def file_of(run: Run) -> Any:
    return json.loads(b"".join(speedscope_file(profiles(run), "a run")))


def checked(document: Any) -> Any:
    """The document, if it is what the format's documentation asks for."""
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert {"shared", "profiles", "name", "activeProfileIndex", "exporter", "$schema"} == set(document)
    frames = document["shared"]["frames"]
    for frame in frames:
        assert {"name"} <= set(frame) <= {"name", "file", "line", "col"}
    assert len({json.dumps(frame) for frame in frames}) == len(frames)
    for profile in document["profiles"]:
        assert profile["unit"] == "nanoseconds"
        assert isinstance(profile["name"], str)
        if profile["type"] == "sampled":
            assert len(profile["samples"]) == len(profile["weights"])
            assert all(0 <= frame < len(frames) for stack in profile["samples"] for frame in stack)
            assert profile["endValue"] == sum(profile["weights"])
        else:
            balanced(profile)
    return document


def balanced(profile: Any) -> None:
    """Events in order of time, of which each that opens is closed, the last one first."""
    assert profile["type"] == "evented"
    opened: list[int] = []
    before = profile["startValue"]
    for event in profile["events"]:
        assert before <= event["at"] <= profile["endValue"]
        before = event["at"]
        if event["type"] == "O":
            opened.append(event["frame"])
        else:
            assert event["type"] == "C"
            assert opened.pop() == event["frame"]
    assert not opened


def test_samples_are_stacks_with_the_time_they_stand_for() -> None:
    synth = Synth()
    synth.add("stacks", step=1, time=20, weight=3 * MS, phase="forward", collector=False,
              frames=[MAIN, "/me/train.py:7 forward"], call=CALL, leaf=CALL)  # fmt: skip
    synth.add("stacks", step=0, time=10, weight=MS, phase="other", collector=False, frames=[MAIN], leaf=MAIN)
    synth.add(
        "worker_stacks", pid="7", worker=1, loader=0, time=5, weight=2 * MS, file="/me/data.py", line=3, function="f",
        frames=["/me/data.py:3 f"],
    )  # fmt: skip
    document = checked(file_of(synth.run()))
    lines, worker = document["profiles"]
    frames = document["shared"]["frames"]
    assert (lines["name"], worker["name"]) == ("rank 0: lines of your code", "rank 0: worker 1 of loader 0")
    assert [[frames[frame]["name"] for frame in stack] for stack in lines["samples"]] == [
        ["other", "main train.py:9"], ["forward", "main train.py:9", "forward train.py:7", "call m.py:5"],
    ]  # fmt: skip
    assert lines["weights"] == [MS, 3 * MS]
    assert {"name": "forward train.py:7", "file": "/me/train.py", "line": 7} in frames
    assert worker["weights"] == [2 * MS]


def test_threads_are_events_that_open_and_close() -> None:
    synth = Synth().host("/me/train.py(3): main", "python", 10, 40).host("aten::mm", "operator", 20, 30)
    synth.host("aten::add", "operator", 25, 27, thread="2").add("threads", thread="2", name="pt_autograd_0")
    document = checked(file_of(synth.run()))
    names = [frame["name"] for frame in document["shared"]["frames"]]
    first, second = document["profiles"]
    assert [(event["type"], names[event["frame"]], event["at"] // MS) for event in first["events"]] == [
        ("O", "main train.py:3", 0), ("O", "aten::mm", 10), ("C", "aten::mm", 20), ("C", "main train.py:3", 30),
    ]  # fmt: skip
    assert second["name"] == "rank 0: pt_autograd_0"
    assert [event["at"] // MS for event in second["events"]] == [15, 17]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), min_size=1, max_size=14))
def test_any_events_are_balanced(spans: list[tuple[int, int]]) -> None:
    synth = Synth()
    for number, (start, length) in enumerate(spans):
        synth.host(f"aten::op{number}", "operator", start, start + length)
    (profile,) = checked(file_of(synth.run()))["profiles"]
    assert len(profile["events"]) == 2 * len(spans)


@pytest.mark.parametrize("name", ["gloo_ddp2", "cpu_mlp", "nasty.json"])
def test_real_traces_are_written_whole(corpus: Path, name: str) -> None:
    run = open_run([str(corpus / "traces" / "local" / name)])
    document = checked(file_of(run))
    kinds = ("operator", "annotation", "runtime", "driver", "python")
    events = run.optional("host", "kind").filter(pl.col("kind").is_in(kinds)).height
    assert sum(len(profile["events"]) for profile in document["profiles"]) == 2 * events


def test_nothing_to_write_says_how_to_record_it() -> None:
    with pytest.raises(MissingData) as lack:
        profiles(Synth().run())
    assert "stepscope run" in lack.value.how


def test_the_command_writes_one_file_for_all_ranks(corpus: Path, tmp_path: Path) -> None:
    trace, target = corpus / "traces" / "local" / "gloo_ddp2", tmp_path / "x.speedscope.json"
    done = stepscope("export", str(trace), "-o", str(target))
    assert done.returncode == 0, done.stderr
    assert f"wrote {target}: 6 profiles; open it in https://www.speedscope.app" in done.stderr
    names = [profile["name"] for profile in checked(json.loads(target.read_text()))["profiles"]]
    assert {name.split(":")[0] for name in names} == {"rank 0", "rank 1"}
    again = stepscope("export", str(trace), "-o", str(target))
    assert again.returncode == 2
    assert "add --force" in again.stderr
    default = stepscope("export", str(trace), "--format", "speedscope", cwd=tmp_path)
    assert default.returncode == 0, default.stderr
    assert (tmp_path / "gloo_ddp2.speedscope.json").exists()


def test_overlays_are_not_for_speedscope(tmp_path: Path) -> None:
    done = stepscope("export", str(tmp_path), "--format", "speedscope", "--overlay", "gaps")
    assert done.returncode == 2
    assert "is for Perfetto only" in done.stderr
