"""What the options of `stepscope run` ask the probe to record, and what is refused before the job starts."""

import pytest

from stepscope.cli._options import RunOptions, recording
from stepscope.core.errors import BadInput
from stepscope.run_format.options import VARIABLE, RecordingOptions


def schedule(skip_first: int = 0, wait: int = 10, warmup: int = 1, active: int = 3, repeat: int = 1) -> dict[str, int]:
    return {"skip_first": skip_first, "wait": wait, "warmup": warmup, "active": active, "repeat": repeat}


def test_by_default_three_early_steps_and_the_lines() -> None:
    asked = recording(RunOptions())
    assert asked == RecordingOptions(
        trace=schedule(), any_step=True, lines_hz=50, loader="on", loader_lines_hz=20, trace_seconds=10,
        trace_events=100_000,
    )  # fmt: skip


def test_the_probe_reads_what_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = recording(RunOptions(extras="shapes", settings="num_workers=4"))
    monkeypatch.setenv(VARIABLE, asked.to_json())
    assert RecordingOptions.from_environment() == asked
    monkeypatch.setenv(VARIABLE, '{"lines_hz": 7, "of a later version": 1}')
    assert RecordingOptions.from_environment() == RecordingOptions(lines_hz=7)


@pytest.mark.parametrize(
    ("options", "key", "expected"),
    [
        (RunOptions(trace="auto"), "trace", schedule()),
        (RunOptions(trace="none"), "trace", None),
        (RunOptions(trace="100:110"), "trace", schedule(wait=99, active=10)),
        (RunOptions(trace="1:2"), "trace", schedule(wait=0, active=1)),
        (RunOptions(schedule="wait=5, active=2"), "trace", schedule(wait=5, active=2)),
        (RunOptions(schedule="skip_first=7,repeat=0,warmup=0"), "trace", schedule(skip_first=7, repeat=0, warmup=0)),
        (RunOptions(extras="stacks,shapes"), "extras", ["shapes", "stacks"]),
        (RunOptions(extras="flops,flops"), "extras", ["flops"]),
        (RunOptions(activities="cpu"), "activities", ["cpu"]),
        (RunOptions(lines="none"), "lines_hz", 0),
        (RunOptions(lines="50"), "lines_hz", 50),
        (RunOptions(loader="on"), "loader", "on"),
        (RunOptions(settings="num_workers=0"), "overrides", {"num_workers": 0}),
        (
            RunOptions(settings="num_workers=4, pin_memory=yes,multiprocessing_context=spawn"),
            "overrides",
            {"num_workers": 4, "pin_memory": True, "multiprocessing_context": "spawn"},
        ),
        (RunOptions(loader="on"), "loader_lines_hz", 20),
        (RunOptions(loader="all", loader_lines="50"), "loader_lines_hz", 50),
        (RunOptions(loader="on", loader_lines="none"), "loader_lines_hz", 0),
        (RunOptions(loader="off", loader_lines="none"), "loader_lines_hz", 0),
    ],
)
def test_an_option_is_understood(options: RunOptions, key: str, expected: object) -> None:
    assert getattr(recording(options), key) == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (RunOptions(trace="100"), "--trace: '100' is neither auto, none nor a range of steps\nwrite --trace 100:110"),
        (RunOptions(trace="-1:4"), "is neither auto, none nor a range"),
        (RunOptions(trace="0:4"), "step 0 cannot be traced"),
        (RunOptions(trace="9:9"), "9:9 holds no step: the second number is not traced\nwrite --trace 9:12"),
        (RunOptions(trace="9:3"), "9:3 holds no step"),
        (RunOptions(trace="1:9", schedule="wait=1"), "--schedule: cannot be given together with --trace"),
        (RunOptions(schedule="wait"), "'wait' is not NAME=NUMBER"),
        (RunOptions(schedule="wait=x"), "'wait=x' is not NAME=NUMBER"),
        (RunOptions(schedule="wait=-1"), "is not NAME=NUMBER"),
        (RunOptions(schedule=""), "'' is not NAME=NUMBER"),
        (RunOptions(schedule="activ=1"), "there is no 'activ', did you mean active?"),
        (RunOptions(schedule="wait=1,wait=2"), "wait is given twice"),
        (RunOptions(schedule="active=0"), "active=0 records no step"),
        (RunOptions(extras="stack"), "there is no 'stack', did you mean stacks?"),
        (RunOptions(extras=","), "--with: names nothing"),
        (
            RunOptions(trace="none", extras="shapes"),
            "--with: describes the traced window, and --trace none asks for none",
        ),
        (RunOptions(trace="none", activities="cpu"), "--activities: describes the traced window"),
        (RunOptions(activities="gpu"), "there is no 'gpu'"),
        (RunOptions(lines="0"), "'0' is neither none nor a number"),
        (RunOptions(lines="1000"), "from 1 to 200"),
        (RunOptions(loader="on", loader_lines="0"), "the default is --loader-lines 20"),
        (RunOptions(loader="off", loader_lines="20"), "the input pipeline, which are off\nleave out --loader off"),
        (RunOptions(lines="²"), "is neither none nor a number"),
        (RunOptions(settings="num_workers"), "--set: 'num_workers' is not NAME=VALUE"),
        (RunOptions(settings="workers=4"), "there is no 'workers', did you mean num_workers?"),
        (RunOptions(settings="num_workers=-1"), "num_workers=-1 is not a number from 0"),
        (RunOptions(settings="num_workers=2,num_workers=4"), "num_workers is given twice"),
        (RunOptions(settings="num_workers=0,prefetch_factor=2"), "prefetch_factor needs workers, and num_workers is 0"),
        (RunOptions(settings="pin_memory=maybe"), "pin_memory=maybe is neither true nor false"),
        (RunOptions(settings="multiprocessing_context=thread"), "is none of fork, spawn, forkserver"),
    ],
)
def test_a_mistake_is_told(options: RunOptions, message: str) -> None:
    with pytest.raises(BadInput) as error:
        recording(options)
    assert message in str(error.value)
    assert "stepscope run --help" in str(error.value)
