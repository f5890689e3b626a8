"""Both readers of Kineto traces, and what tells their results apart."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from stepscope.core.errors import BadInput
from stepscope.core.importing import Sink
from stepscope.importers.kineto.scan import Cutting
from stepscope.importers.kineto.scanned import Unfit, read_scanned
from stepscope.importers.kineto.whole import read_whole

Differences = Callable[..., list[str]]


@pytest.fixture(scope="session")
def differences() -> Differences:
    """How tables differ between the readers: call it with a file and ways of cutting it; all columns are compared."""
    return _differences


def _scanned(path: Path, cutting: Cutting) -> Sink | str | None:
    """What the scanner makes of a file: tables, the message of a refusal, or None where it leaves the file alone."""
    sink = Sink()
    try:
        read_scanned(path, sink, cutting)
    except BadInput as error:
        return str(error)
    except Unfit:
        assert not sink.parts and not sink.skipped, "tables of a file that is left to the other reader"
        return None
    return sink


def _whole(path: Path) -> Sink | str:
    sink = Sink()
    try:
        read_whole(path, sink)
    except BadInput as error:
        return str(error)
    return sink


def _differences(path: Path, *cuttings: Cutting) -> list[str]:
    """How the tables of the scanner, cut in each way, differ from those of the reader of whole texts; all columns."""
    expected = _whole(path)
    found: list[str] = []
    for cutting in cuttings:
        result = _scanned(path, cutting)
        if result is not None:
            found += [f"{cutting}: {difference}" for difference in _between(result, expected)]
    return found


def _between(result: Sink | str, expected: Sink | str) -> list[str]:
    if isinstance(result, str) or isinstance(expected, str):
        return [] if result == expected else [f"{_short(result)}, not {_short(expected)}"]
    found = []
    if _told(result) != _told(expected):
        found.append(f"told {_told(result)}, not {_told(expected)}")
    tables = {name: (pl.concat(result.parts[name]), pl.concat(parts)) for name, parts in expected.parts.items()}
    for name, (one, other) in tables.items():
        if one.schema != other.schema or one.height != other.height:
            found.append(f"{name}: {one.height} rows of {one.schema}, not {other.height} of {other.schema}")
            continue
        found += [
            f"{name}.{column}: {one[column].to_list()[:5]}, not {other[column].to_list()[:5]}"
            for column in other.columns
            if not one[column].equals(other[column], null_equal=True)
        ]
    return found


def _told(sink: Sink) -> Counter[str]:
    return Counter({reason: count for (_, reason), count in sink.skipped.items()})


def _short(result: Sink | str) -> str:
    return result if isinstance(result, str) else f"{sum(map(len, result.parts['host']))} host rows"
