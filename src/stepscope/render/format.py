"""The only place a number becomes text, and a name from a trace becomes safe to show.

Standard library only, so that it can also serve while a job is running.
"""

from __future__ import annotations

import math
import re
import unicodedata
from typing import TYPE_CHECKING, cast

from stepscope.core.plural import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.core.finding import Evidence, Gain, Place, Title, Value
    from stepscope.core.report import Text
    from stepscope.core.schema import Unit

__all__ = [
    "ABSENT",
    "NAME_LIMIT",
    "QUANTITY",
    "basis_texts",
    "cell",
    "code_lines",
    "counted",
    "figure_text",
    "gain_text",
    "on_axis",
    "place_text",
    "plain",
    "progress",
    "quantity",
    "reading",
    "shorten",
    "signed",
    "text",
    "title_text",
]

ABSENT = "–"
"""What stands for a value that was not recorded."""

NAME_LIMIT = 160
"""Characters of a name that a table shows: the longest that still reads as a name; C++ templates go on for pages."""

QUANTITY = re.compile(r"(\d) (%|ns|µs|ms|s|B|[KMGT]iB|W|[kMG]?B/s|[kMGTPE]?FLOP(?:/s)?)(?!\w)")
"""A number and its unit in a text, between which no line should end: groups 1 and 2 stand around the blank."""

_TEXT_LIMIT = 2_000  # characters of a sentence: room for several names in full
_SEPARATORS = re.compile(r"[/\\]")  # of folders, of any system that a trace may come from
_METHODS = ("simulated", "benchmarked", "measured")  # how the bases of gains begin that name theirs
_TITLE_LIMIT = 400
_TITLE_NAME_LIMIT = 80  # one of several names in a line
_TIME_SCALES = ((1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s"))
_SIZE_SCALES = ((1.0, "B"), (2.0**10, "KiB"), (2.0**20, "MiB"), (2.0**30, "GiB"), (2.0**40, "TiB"))
_RATE_SCALES = ((1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB"))
_WORK_SCALES = ((1.0, "FLOP"), (1e3, "kFLOP"), (1e6, "MFLOP"), (1e9, "GFLOP"), (1e12, "TFLOP"), (1e15, "PFLOP"))

_SCALES = {"ns": _TIME_SCALES, "bytes": _SIZE_SCALES, "FLOP": _WORK_SCALES}

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
            return f"{_scaled(value * 1e9, _RATE_SCALES)}/s"
        case "FLOP":
            return _scaled(value, _WORK_SCALES)
        case "FLOP/s":
            return f"{_scaled(value, _WORK_SCALES)}/s"
        case "money":
            return _money(value)
        case None:
            return str(value) if isinstance(value, int) else _digits(value)


def on_axis(value: float, unit: Unit | None, most: float) -> str:
    """A mark of an axis whose largest value is `most`: all marks of it are in one unit, `0 ms` beside `20 ms`."""
    if (scales := _SCALES.get(unit or "")) is None:
        return quantity(value, unit)
    scale, suffix = _scale(most, scales)
    return f"{_digits(value / scale)} {suffix}"


def signed(value: float, unit: Unit | None) -> str:
    """A difference: `+5.17 ms`, `−2.8 ms`, `0 ns`."""
    told = quantity(value, unit)
    return f"+{told}" if value > 0 else told.replace("-", "−", 1)


def counted(count: int, noun: str, nouns: str = "") -> str:
    """`1 step`, `1,240 steps`; `nouns` is the plural where it is not noun + s."""
    return f"{_count(count)} {plural(count, noun, nouns)}"


def cell(value: object, unit: Unit | None, limit: int = NAME_LIMIT) -> str:
    """One cell of a table, safe to show: a quantity, yes or no, or a name of at most `limit` characters."""
    match value:
        case bool():
            return "yes" if value else "no"
        case None | int() | float():
            return quantity(value, unit)
        case _:
            return plain(str(value), limit)


def figure_text(evidence: Evidence) -> str:
    """The value of an evidence with what it is a part of: `19.6 ms · 82 %`, `1.96 of 2`."""
    told = quantity(evidence.value, evidence.unit)
    if evidence.of is not None:
        told += f" of {quantity(evidence.of, evidence.unit)}"
    return told if evidence.share is None else f"{told} · {quantity(evidence.share, 'ratio')}"


def gain_text(gain: Gain, *, of_steps: bool) -> str:
    """`could save 8–13 % (12–20 ms per step)`; without `of_steps`, where the source marks none, of all its time.

    Of steps that need not be: `could save 75 % of all steps`. Where it may be nothing, or the replacement of the code
    is unknown: `could save up to`.
    """
    scale, suffix = _scale(gain.high_ns, _TIME_SCALES)
    times = _range(_digits(gain.low_ns / scale), _digits(gain.high_ns / scale))
    if not of_steps or not gain.step_ns:
        return f"could save {times} {suffix} of the recorded time"
    shares = f"{_range(_percent(gain.low_ns / gain.step_ns), _percent(gain.high_ns / gain.step_ns))} %"
    if gain.pool == "repeated-steps":
        return f"could save {shares} of all steps"
    if gain.curve or not gain.low_ns:
        most = quantity(gain.high_ns / gain.step_ns, "ratio")
        return f"could save up to {most} ({_digits(gain.high_ns / scale)} {suffix} per step)"
    return f"could save {shares} ({times} {suffix} per step)"


def basis_texts(gain: Gain) -> tuple[str, str, str]:
    """How a gain was predicted: whole, without what stands in brackets at its end, and the method alone.

    `simulated: num_workers=4 (cores full)`; a basis without a method is `estimated: …` or `benchmarked: …`.
    """
    method = "benchmarked: " if gain.confidence == "benchmarked" else "estimated: "
    basis, curve = plain(gain.basis, limit=400), _if_faster(gain)
    basis = basis if basis.startswith(_METHODS) else method + basis
    return basis + curve, re.sub(r" \([^()]*\)$", "", basis) + curve, basis.partition(":")[0] + curve


def _if_faster(gain: Gain) -> str:
    """`; 2× faster could save 38 %, 4× 57 %`, of code whose replacement is unknown."""
    points = [(_digits(k), quantity(saved / gain.step_ns, "ratio")) for k, saved in gain.curve if gain.step_ns]
    others = "".join(f", {factor}× {saved}" for factor, saved in points[1:])
    return "".join(f"; {factor}× faster could save {saved}{others}" for factor, saved in points[:1])


def text(block: Text) -> str:
    """A Text block with its values filled in, on one line."""
    return plain(block.text.format(*(quantity(value.value, value.unit) for value in block.values)), _TEXT_LIMIT)


def title_text(title: Title) -> str:
    """The title of a finding with its names and figures filled in; a line of code is `train.py:41`."""
    return plain(title.words.format(*map(_in_title, title.figures)), _TITLE_LIMIT)


def _in_title(figure: str | Place | Value) -> str:
    if isinstance(figure, str):
        return plain(figure, _TITLE_NAME_LIMIT)
    if hasattr(figure, "unit"):  # no isinstance(): the module of these classes is not needed while a job runs
        value = cast("Value", figure)
        return quantity(value.value, value.unit)
    return plain(f"{_SEPARATORS.split(figure.file)[-1]}:{figure.line}", _TITLE_NAME_LIMIT)


def place_text(place: Place) -> str:
    """`train.py:41 in __getitem__`."""
    symbol = f" in {plain(place.symbol)}" if place.symbol else ""
    return f"{plain(place.file)}:{place.line}{symbol}"


def progress(step: int, step_ns: float, data_wait: float | None) -> str:
    """The line shown while a job runs: `step 1,240 · 41.2 ms/step · data wait 63 %`; `data_wait` is a ratio."""
    wait = "" if data_wait is None else f" · data wait {quantity(data_wait, 'ratio')}"
    return f"step {_count(step)} · {quantity(step_ns, 'ns')}/step{wait}"


def reading(what: str, size: float, whole: float, seconds: float) -> str:
    """The line shown while files are read: `3 of 64 ranks · 180 MB of 3.8 GB · 45 MB/s · 80 s left`; sizes in bytes."""
    if not size or not seconds:
        return what
    left = seconds * max(whole - size, 0.0) / size
    return (
        f"{what} · {quantity(size, 'bytes')} of {quantity(whole, 'bytes')} · {quantity(size / seconds, 'bytes')}/s"
        f" · {quantity(left * 1e9, 'ns')} left"
    )


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
    return f"{value if scale == 1 and isinstance(value, int) else _digits(value / scale)} {suffix}"


def _scale(value: float, scales: Sequence[tuple[float, str]]) -> tuple[float, str]:
    """The largest scale in which the value, as it will be printed, is not below 1."""
    reached = ((scale, suffix) for scale, suffix in reversed(scales) if abs(float(f"{value / scale:.3g}")) >= 1)
    return next(reached, scales[0])


def _digits(value: float) -> str:
    """Three significant digits, without trailing zeros, and without an exponent down to a millionth."""
    rounded = float(f"{value:.3g}")
    if rounded == 0:
        return "0"
    if abs(rounded) >= 100:
        return f"{rounded:,.0f}"
    if abs(rounded) < 1e-6:
        return f"{rounded:.2e}"
    return f"{rounded:.{5 if abs(rounded) >= 1e-3 else 8}f}".rstrip("0").rstrip(".")


def _money(value: float) -> str:
    """Three significant digits, and no less than two decimals from 1 to 100: `3.50`, `12.30`, `1,230`, `0.0123`."""
    whole, _, decimals = _digits(value).partition(".")
    return f"{whole}.{decimals:0<2}" if 1 <= abs(value) < 100 else _digits(value)


def _percent(ratio: float) -> str:
    """Whole per cent from 10 up, one decimal below and near 100, `<0.1` and `>99.9` for nearly nothing and all."""
    percent = ratio * 100
    if 0 < percent < 0.05:
        return "<0.1"
    if 99.95 <= percent < 100:
        return ">99.9"
    rounded = f"{percent:.1f}" if abs(percent) < 9.95 or 99.5 <= percent < 100 else f"{percent:,.0f}"
    return rounded.removesuffix(".0")


def _count(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.0f}" if abs(value) >= 1000 else _digits(value)


def _range(low: str, high: str) -> str:
    return high if low == high else f"{low}–{high}"
