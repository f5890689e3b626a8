"""What the options of `stepscope run` ask the probe to record; every contradiction is told before the job starts."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stepscope.cli._settings import loader_settings
from stepscope.core.errors import BadInput
from stepscope.run_format.options import RecordingOptions

__all__ = [
    "ACTIVITIES",
    "DEFAULT_LINES_HZ",
    "DEFAULT_LOADER",
    "DEFAULT_LOADER_LINES_HZ",
    "EXTRAS",
    "RunOptions",
    "recording",
]

EXTRAS = ("shapes", "memory", "stacks", "flops", "modules")
"""What a traced window can hold besides times."""

ACTIVITIES = ("cpu", "cuda")
"""What a traced window can watch."""

DEFAULT_LINES_HZ = 50
"""Samples a second of the line: one of 10 % of the time is found within seconds; 44 µs each, 0.2 % of a core."""

DEFAULT_LOADER = "on"
"""Spans of the input pipeline: off, on or all. They cost less than 1 % of the CPU time of loading."""

DEFAULT_LOADER_LINES_HZ = 20
"""Samples a second of the line in each worker, at most: fewer where they take more than 0.1 % of its CPU time."""

_MEANT = {"gpu": "cuda"}  # what no likeness of letters finds
_MOST_LINES_HZ = 200  # above it the sampler itself takes more than a per cent of a core
_SCHEDULE = {"skip_first": 0, "wait": 10, "warmup": 1, "active": 3, "repeat": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The words given on the command line; None where the option was not given."""

    trace: str | None = None
    schedule: str | None = None
    extras: str | None = None
    activities: str | None = None
    lines: str | None = None
    loader: str = DEFAULT_LOADER
    loader_lines: str | None = None
    settings: str | None = None
    no_source: bool = False


def recording(options: RunOptions) -> RecordingOptions:
    """What the probe is asked to record. Raises BadInput for words it cannot use."""
    trace = _trace(options)
    extras = _words("--with", options.extras, EXTRAS)
    activities = _words("--activities", options.activities, ACTIVITIES)
    if trace is None and (extras or activities):
        given = "--with" if extras else "--activities"
        raise _bad(given, "describes the traced window, and --trace none asks for none", "leave out one of the two")
    return RecordingOptions(
        trace=trace,
        any_step=options.trace in (None, "auto") and options.schedule is None,
        extras=extras or [],
        activities=activities,
        lines_hz=_lines("--lines", options.lines, DEFAULT_LINES_HZ),
        loader=options.loader,
        loader_lines_hz=_loader_lines(options),
        source=not options.no_source,
        overrides=None if options.settings is None else loader_settings(options.settings),
    )


def _trace(options: RunOptions) -> dict[str, int] | None:
    if options.schedule is not None:
        if options.trace is not None:
            raise _bad("--schedule", "cannot be given together with --trace", "leave out one of the two")
        return _schedule(options.schedule)
    match options.trace:
        case None | "auto":
            return dict(_SCHEDULE)
        case "none":
            return None
        case steps:
            return _range(steps)


def _range(steps: str) -> dict[str, int]:
    """Steps A to B, without B: A - 1 steps of waiting, one of warm-up."""
    found = re.fullmatch(r"(\d+):(\d+)", steps, re.ASCII)
    if not found:
        raise _bad("--trace", f"{steps!r} is neither auto, none nor a range of steps", "write --trace 100:110")
    first, end = int(found[1]), int(found[2])
    if first < 1:
        raise _bad(
            "--trace", "step 0 cannot be traced: recording begins when a step has ended", f"write --trace 1:{end}"
        )
    if end <= first:
        raise _bad(
            "--trace", f"{steps} holds no step: the second number is not traced", f"write --trace {first}:{first + 3}"
        )
    return {**_SCHEDULE, "wait": first - 1, "active": end - first}


def _schedule(words: str) -> dict[str, int]:
    schedule = dict(_SCHEDULE)
    given: set[str] = set()
    for word in words.split(","):
        name, equals, number = (part.strip() for part in word.partition("="))
        example = "write --schedule wait=10,warmup=1,active=3,repeat=1,skip_first=0"
        if not equals or not re.fullmatch(r"\d+", number, re.ASCII):
            raise _bad("--schedule", f"{word.strip()!r} is not NAME=NUMBER", example)
        if name not in schedule:
            raise _bad("--schedule", f"there is no {name!r}{_close(name, tuple(schedule))}", example)
        if name in given:
            raise _bad("--schedule", f"{name} is given twice", example)
        given.add(name)
        schedule[name] = int(number)
    if schedule["active"] < 1:
        raise _bad("--schedule", "active=0 records no step", "write --trace none to record no trace")
    return schedule


def _words(option: str, words: str | None, known: tuple[str, ...]) -> list[str] | None:
    if words is None:
        return None
    chosen = [word.strip() for word in words.split(",") if word.strip()]
    for word in chosen:
        if word not in known:
            raise _bad(option, f"there is no {word!r}{_close(word, known)}", f"choose from {','.join(known)}")
    if not chosen:
        raise _bad(option, "names nothing", f"choose from {','.join(known)}")
    return [word for word in known if word in chosen]


def _loader_lines(options: RunOptions) -> int:
    hz = _lines("--loader-lines", options.loader_lines, DEFAULT_LOADER_LINES_HZ)
    if options.loader != "off":
        return hz
    if hz and options.loader_lines is not None:
        raise _bad("--loader-lines", "needs spans of the input pipeline, which are off", "leave out --loader off")
    return 0


def _lines(option: str, words: str | None, default: int) -> int:
    if words is None:
        return default
    if words == "none":
        return 0
    if not re.fullmatch(r"\d+", words, re.ASCII) or not 1 <= int(words) <= _MOST_LINES_HZ:
        why = f"{words!r} is neither none nor a number of samples a second from 1 to {_MOST_LINES_HZ}"
        raise _bad(option, why, f"the default is {option} {default}")
    return int(words)


def _close(word: str, known: tuple[str, ...]) -> str:
    from difflib import get_close_matches  # only for a mistake: the job should not wait for it

    meant = _MEANT.get(word, word)
    close = get_close_matches(meant, known, n=1, cutoff=0.5)
    return f", did you mean {close[0]}?" if close else ""


def _bad(option: str, why: str, next_step: str) -> BadInput:
    return BadInput(option, why, next_step=f"{next_step} (stepscope run --help)")
