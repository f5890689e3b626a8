"""The only place a number becomes text, and a name from a trace becomes safe to show.

Standard library only, so that it can also serve while a job is running.
"""

from __future__ import annotations

import math
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.core.finding import Gain, Place
    from stepscope.core.report import Text, Verdict
    from stepscope.core.schema import Unit

__all__ = [
    "ABSENT",
    "NAME_LIMIT",
    "cell",
    "code_lines",
    "counted",
    "gain_text",
    "place_text",
    "plain",
    "progress",
    "quantity",
    "sentence",
    "shorten",
    "text",
]

ABSENT = "–"
"""What stands for a value that was not recorded."""

NAME_LIMIT = 160
"""Characters of a name that a table shows: the longest that still reads as a name; C++ templates go on for pages."""

_TEXT_LIMIT = 2_000  # characters of a sentence: room for several names in full
_TIME_SCALES = ((1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s"))
_SIZE_SCALES = ((1.0, "B"), (2.0**10, "KiB"), (2.0**20, "MiB"), (2.0**30, "GiB"), (2.0**40, "TiB"))

# Control characters, invisible ones that reorder text, and halves of characters: none may reach a terminal or a page.
_UNSAFE = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
_JOINERS = frozenset("\u200c\u200d")  # letters of Persian and Indian scripts need them, and they move nothing


def quantity(value: float | None, unit: Unit | None) -> str:
    """A number and its unit, three significant digits: `41.2 ms`, `63 %`, `1.5 GiB`, `1,240`. None and NaN are `–`."""
    if value is None or not math.isfinite(value):
        return ABSENT
    match unit:
        case "ns":
            return _scaled(value, _TIME_SCALES)
        case "bytes":
            return _scaled(value, _SIZE_SCALES)
        case "ratio":
            return f"{_percent(value)} %"
        case "count":
            return _count(value)
        case "watts":
            return f"{_digits(value)} W"
        case "GB/s":
            return f"{_digits(value)} GB/s"
        case None:
            return str(value) if isinstance(value, int) else _digits(value)


def counted(count: int, noun: str, nouns: str = "") -> str:
    """`1 step`, `1,240 steps`; `nouns` is the plural where it is not noun + s."""
    return f"{_count(count)} {noun if count == 1 else nouns or noun + 's'}"


def cell(value: object, unit: Unit | None, limit: int = NAME_LIMIT) -> str:
    """One cell of a table, safe to show: a quantity, yes or no, or a name of at most `limit` characters."""
    match value:
        case bool():
            return "yes" if value else "no"
        case None | int() | float():
            return quantity(value, unit)
        case _:
            return plain(str(value), limit)


def gain_text(gain: Gain, step_ns: float | None) -> str:
    """`saves 12–20 ms a step (8–13 %)`; the share is of `step_ns`, the mean step, and left out if that is unknown."""
    scale, suffix = _scale(gain.high_ns, _TIME_SCALES)
    times = _range(_digits(gain.low_ns / scale), _digits(gain.high_ns / scale))
    share = ""
    if step_ns:
        low, high = min(gain.low_ns / step_ns, 1.0), min(gain.high_ns / step_ns, 1.0)
        share = f" ({_range(_percent(low), _percent(high))} %)"
    return f"saves {times} {suffix} a step{share}"


def sentence(verdict: Verdict) -> str:
    """The verdict in one sentence: `Input-bound: 63 % of the mean step of 41.2 ms waits for the next batch.`"""
    of_step = f"the mean step of {quantity(verdict.step_ns, 'ns')}" if verdict.step_ns else "each step"
    share = f"{quantity(verdict.share, 'ratio')} of {of_step}" if verdict.share is not None else f"most of {of_step}"
    match verdict.bound:
        case "input":
            return f"Input-bound: {share} waits for the next batch."
        case "host":
            return f"Host-bound: {share} goes by in Python, files and launching while nothing computes."
        case "device":
            return f"Device-bound: {share} is computing."
        case "communication":
            return f"Communication-bound: {share} waits for other ranks with nothing computing meanwhile."
        case "memory":
            return f"Memory-bound: {share} copies or sets memory with nothing computing meanwhile."
        case "balanced":
            return f"Balanced: no single part limits {of_step}."
        case "unknown":
            why = verdict.why_unknown or "the run does not say where its time goes"
            return f"Unknown: {plain(why, limit=400).removesuffix('.')}."


def text(block: Text) -> str:
    """A Text block with its values filled in, on one line."""
    return plain(block.text.format(*(quantity(value.value, value.unit) for value in block.values)), _TEXT_LIMIT)


def place_text(place: Place) -> str:
    """`train.py:41 in __getitem__`."""
    symbol = f" in {plain(place.symbol)}" if place.symbol else ""
    return f"{plain(place.file)}:{place.line}{symbol}"


def progress(step: int, step_ns: float, data_wait: float | None) -> str:
    """The line shown while a job runs: `step 1,240 · 41.2 ms/step · data wait 63 %`; `data_wait` is a ratio."""
    wait = "" if data_wait is None else f" · data wait {quantity(data_wait, 'ratio')}"
    return f"step {_count(step)} · {quantity(step_ns, 'ns')}/step{wait}"


def plain(name: str, limit: int = NAME_LIMIT) -> str:
    """A name from a trace on one line: unsafe characters as visible escapes, the middle of a long one left out.

    The result is at most `limit` characters long, but for escapes.
    """
    name = shorten(name, limit)
    if name.isascii() and name.isprintable():
        return name
    return "".join(_visible(letter) for letter in name)


def code_lines(code: str) -> list[str]:
    """Lines of code with tabs as four spaces, otherwise as `plain` shows names."""
    return [plain(line.expandtabs(4), limit=400) for line in code.strip("\r\n").splitlines()]


def shorten(name: str, limit: int) -> str:
    """Leave the middle of a name out, so that it has at most `limit` characters."""
    if len(name) <= limit:
        return name
    tail = (limit - 1) // 3
    return f"{name[: limit - 1 - tail]}…{name[len(name) - tail :]}"


def _visible(letter: str) -> str:
    if unicodedata.category(letter) not in _UNSAFE or letter in _JOINERS:
        return letter
    return letter.encode("unicode_escape").decode("ascii")


def _scaled(value: float, scales: Sequence[tuple[float, str]]) -> str:
    scale, suffix = _scale(value, scales)
    if scale == 1 and isinstance(value, int):
        return f"{value} {suffix}"
    return f"{_digits(value / scale)} {suffix}"


def _scale(value: float, scales: Sequence[tuple[float, str]]) -> tuple[float, str]:
    """The largest scale in which the value, as it will be printed, is not below 1."""
    rounded = abs(float(f"{value:.3g}"))
    return next(((scale, suffix) for scale, suffix in reversed(scales) if rounded >= scale), scales[0])


def _digits(value: float) -> str:
    """Three significant digits, without trailing zeros or an exponent."""
    rounded = float(f"{value:.3g}")
    if rounded == 0:
        return "0"
    if abs(rounded) >= 100:
        return f"{rounded:,.0f}"
    if abs(rounded) < 1e-3:
        return f"{rounded:.2e}"
    return f"{rounded:.5f}".rstrip("0").rstrip(".")


def _percent(ratio: float) -> str:
    """Whole per cent from 10 up, one decimal below, `<0.1` for what is nearly nothing."""
    percent = ratio * 100
    if 0 < percent < 0.05:
        return "<0.1"
    rounded = f"{percent:.1f}" if abs(percent) < 9.95 else f"{percent:,.0f}"
    return rounded.removesuffix(".0")


def _count(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.0f}" if abs(value) >= 1000 else _digits(value)


def _range(low: str, high: str) -> str:
    if low == high:
        return high
    return f"up to {high}" if low == "0" else f"{low}–{high}"
