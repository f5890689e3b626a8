"""What was recorded as a file for speedscope: samples of lines, and all that each thread of the host was in.

The format is that of https://www.speedscope.app/file-format-schema.json: frames that all profiles share, sampled
profiles (stacks with weights) and evented ones (a frame opens, a frame closes), with times in nanoseconds.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.lib.call_trees import Label, Path, paths_by_row
from stepscope.analyses.lib.host_spans import host_spans, nested
from stepscope.analyses.lib.result_tables import RECORD_TRACE
from stepscope.analyses.steps.lib.samples import HOW
from stepscope.core.errors import MissingData
from stepscope.core.run import Run, chain

__all__ = ["Evented", "Profile", "Sampled", "profiles", "speedscope_file"]

Ints = npt.NDArray[np.int64]
_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


@dataclass(frozen=True, slots=True, eq=False)
class Sampled:
    """Samples in order of time: for each the place of its stack in `stacks`, and the time in ns it stands for."""

    name: str
    stacks: tuple[Path, ...]
    sample: Ints
    weight: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Evented:
    """Spans of a thread, depth first: what each is, as a place in `labels`, its depth, and start and end in ns."""

    name: str
    labels: tuple[Label, ...]
    label: Ints
    depth: Ints
    start: Ints
    end: Ints


Profile = Sampled | Evented


def profiles(run: Run) -> tuple[Profile, ...]:
    """All samples and all host events of a run, by rank. Raises MissingData without any."""
    found: tuple[Profile, ...] = run.per_rank(_profiles, chain)
    if not found:
        raise MissingData("stack samples, and no host events,", how=f"{HOW}, or {RECORD_TRACE}")
    return found


def speedscope_file(found: Sequence[Profile], name: str) -> Iterator[bytes]:
    """The text of the file, in pieces."""
    labels: dict[Label, int] = {}
    for profile in found:
        of_it = profile.labels if isinstance(profile, Evented) else (frame for path in profile.stacks for frame in path)
        for label in of_it:
            labels.setdefault(label, len(labels))
    frames = [_frame(label) for label in labels]
    head = {"$schema": _SCHEMA, "exporter": "stepscope", "name": name, "activeProfileIndex": 0}
    yield json.dumps(head)[:-1].encode()
    yield b', "shared": {"frames": ' + json.dumps(frames).encode() + b'}, "profiles": ['
    for number, profile in enumerate(found):
        yield b",\n" if number else b"\n"
        yield from _evented(profile, labels) if isinstance(profile, Evented) else _sampled(profile, labels)
    yield b"\n]}\n"


def _profiles(run: Run) -> tuple[Profile, ...]:
    return (*_lines(run), *_workers(run), *_threads(run))


def _lines(run: Run) -> Iterator[Profile]:
    """The main thread of each rank, the phase of training on top of each stack."""
    samples = run.optional("stacks").filter(pl.col("weight") > 0).sort("rank", "pid", "time")
    for part in samples.partition_by("rank", "pid", maintain_order=True):
        yield _of_samples(f"rank {part['rank'][0]}: lines of your code", part, "phase")


def _workers(run: Run) -> Iterator[Profile]:
    samples = run.optional("worker_stacks").filter(pl.col("weight") > 0).sort("rank", "pid", "time")
    for part in samples.partition_by("rank", "pid", maintain_order=True):
        worker, loader = part.select("worker", "loader").row(0)
        yield _of_samples(f"rank {part['rank'][0]}: worker {worker} of loader {loader}", part, None)


def _of_samples(name: str, samples: pl.DataFrame, key: str | None) -> Sampled:
    paths, stack, _ = paths_by_row(samples, key)
    return Sampled(name, tuple(paths), stack.cast(pl.Int64).to_numpy(), samples["weight"].to_numpy())


def _threads(run: Run) -> Iterator[Profile]:
    """Every thread of the host, each rank from its first event on."""
    try:
        spans = host_spans(run)
    except MissingData:
        return
    laid = nested(spans.track, spans.start, spans.end)
    rank = spans.threads["rank"].to_numpy()[spans.track]
    for number, whose in enumerate(spans.threads.iter_rows(named=True)):
        rows = laid.order[spans.track[laid.order] == number]
        if (laid.start[rows] != spans.start[rows]).any():
            rows = _depth_first(rows, laid.parent)
        first = int(spans.start[rank == whose["rank"]].min())
        name = f"rank {whose['rank']}: {whose['name'] or 'thread ' + str(whose['thread'])}"
        yield Evented(
            name, spans.labels, spans.label[rows], laid.depth[rows], laid.start[rows] - first, laid.end[rows] - first
        )


def _depth_first(rows: Ints, parent: Ints) -> Ints:
    """Rows of a thread each before those below it, which the order of their starts is not once one was moved."""
    below: dict[int, list[int]] = {}
    for row in rows.tolist():
        below.setdefault(int(parent[row]), []).append(row)
    order, waiting = [], below.get(-1, [])[::-1]
    while waiting:
        row = waiting.pop()
        order.append(row)
        waiting.extend(reversed(below.get(row, ())))
    return np.array(order, dtype=np.int64)


def _frame(label: Label) -> dict[str, object]:
    place: dict[str, object] = {"file": label.file} if label.file else {}
    return {"name": label.name, **place, **({"line": label.line} if label.line else {})}


def _sampled(profile: Sampled, labels: dict[Label, int]) -> Iterator[bytes]:
    yield _head("sampled", profile.name, int(profile.weight.sum()))
    stacks = [json.dumps([labels[label] for label in path]) for path in profile.stacks]
    yield f', "samples": [{", ".join(stacks[number] for number in profile.sample.tolist())}]'.encode()
    yield f', "weights": {json.dumps(profile.weight.tolist())}}}'.encode()


def _evented(profile: Evented, labels: dict[Label, int]) -> Iterator[bytes]:
    yield _head("evented", profile.name, int(profile.end.max(initial=0)))
    yield b', "events": ['
    numbers = [labels[label] for label in profile.labels]
    opened: list[tuple[int, int]] = []
    separator = ""
    columns = (profile.label, profile.depth, profile.start, profile.end)
    for label, depth, start, end in zip(*(column.tolist() for column in columns), strict=True):
        pieces = [_event("C", *opened.pop()) for _ in range(len(opened) - depth)]
        pieces.append(_event("O", numbers[label], start))
        opened.append((numbers[label], end))
        yield (separator + ",".join(pieces)).encode()
        separator = ","
    rest = ",".join(_event("C", *opened.pop()) for _ in range(len(opened)))
    yield (separator + rest if rest else "").encode() + b"]}"


def _head(kind: str, name: str, end: int) -> bytes:
    fields = {"type": kind, "name": name, "unit": "nanoseconds", "startValue": 0, "endValue": end}
    return json.dumps(fields)[:-1].encode()


def _event(kind: str, frame: int, at: int) -> str:
    return f'{{"type":"{kind}","frame":{frame},"at":{at}}}'
