"""The page makes the same text of a number, a name and a gain as render/format.py: both are run on the same cases."""

import math
import random
from dataclasses import asdict
from pathlib import Path
from typing import get_args

import pytest

from stepscope.core.finding import Evidence, Gain
from stepscope.core.schema import Unit
from stepscope.render.format import (
    ABSENT,
    code_lines,
    counted,
    figure_text,
    gain_text,
    on_axis,
    plain,
    quantity,
    signed,
)

from ..page_source import answers

ODD = (
    0, 1, 5, 10, 99, 100, 999, 999.5, 999.4999, 1000, 1023, 1024, 1048575, 9.995, 99.95, 0.0005, 0.00049, 0.1, 0.125,
    0.375, 1.125, 1.135, 2.5, 102.5, 1000.5, 1001.5, 12345, 1125000, 1135000, 0.0995, 0.0994999, 0.09945, 0.00095,
    1e-9, 1e-4, 1.5e-5, 123456789, 2**53 - 1, 1e15, 1e18, -1, -0.125, -12345.678, -999.95, 0.99949999, 0.9995,
    2**30, 2**20 - 1, 2**40, 8.73e-4, 9.996e-4, 1e-6, 9.99e-7,
)  # fmt: skip
UNITS: tuple[Unit | None, ...] = (*get_args(Unit), None)
NAMES = (
    "", "aten::mm", "a\tb\nc", "\x1b[2J", "\u202egnp", "\u200cjoiner\u200d", "\u2028line", "é" * 200, "x" * 500,
    "\U0001f600" * 170, "\U000e0001tag", "naïve\xad", "<script>alert(1)</script>",
)  # fmt: skip
CODE = ("", "\nx = 1\n", "if a:\n\tb()\r\nc", "a\x00b", "\n\n\ty" + "z" * 500)
FIGURES = (
    Evidence(label="data wait per step", value=19_600_000.5, unit="ns", source="steps", share=0.82),
    Evidence(label="cores used", value=1.96, unit="count", source="core_waits", of=2),
    Evidence(label="last in collectives", value=1, unit="count", source="late_ranks", of=1.5, share=0.5),
    Evidence(label="num_workers", value=1240, unit="count", source="loaders"),
)
RUNNER = """
const { quantity, onAxis, plain, codeLines, figureText, gainParts, isAtMost, mostOf, counted, signed } =
  require(process.argv[2]);
const gainText = (gain, ofSteps) => {
  const { times, shares } = gainParts(gain, ofSteps);
  if (!shares) return `could save ${times} of the recorded time`;
  const [most, time] = mostOf(gain);
  return isAtMost(gain) ? `could save up to ${most} (${time} per step)` : `could save ${shares} (${times} per step)`;
};
const cases = JSON.parse(require("fs").readFileSync(0, "utf8"));
process.stdout.write(JSON.stringify({
  quantities: cases.quantities.map(([value, unit, decimal]) => quantity(value, unit, decimal)),
  marks: cases.marks.map(([value, unit, most]) => onAxis(value, unit, most)),
  names: cases.names.map(([name, limit]) => plain(name, limit)),
  code: cases.code.map((code) => codeLines(code)),
  gains: cases.gains.map(([low_ns, high_ns, step_ns, ofSteps]) =>
    gainText({ low_ns, high_ns, step_ns, curve: [] }, ofSteps)),
  figures: cases.figures.map((one) => figureText(one)),
  differences: cases.quantities.filter(([value]) => value !== null).map((one) => signed(...one)),
  counts: cases.counts.map((number) => counted(number, "step")),
}));
"""


@pytest.fixture(scope="module")
def quantities() -> list[tuple[float | int | None, Unit | None]]:
    """Odd numbers, halves and random ones, in every unit."""
    chance = random.Random(5)
    some = [chance.choice((-1, 1)) * 10 ** chance.uniform(-6, 16) for _ in range(600)]
    some += [chance.randrange(10**9) / 2 ** chance.randrange(1, 12) for _ in range(300)]
    whole = [chance.randrange(10 ** chance.randrange(1, 16)) for _ in range(300)]
    return [(value, unit) for value in (*ODD, *some, *whole, None) for unit in UNITS]


def test_the_page_says_the_same(quantities: list[tuple[float | int | None, Unit | None]], tmp_path: Path) -> None:
    spans = ((0, 5, 10), (0, 0, 10), (0, 0, 0), (12_000_000, 20_000_000, 41_200_000), (1_125_000, 9 * 10**9, 10**10))
    gains = [(*span, of_steps) for span in spans for of_steps in (True, False)]
    marks = [
        (value, unit, most)
        for value in (0, 500_000, 20_000_000, 2**20)
        for unit in UNITS
        for most in (3, 2e7, 2**30, 5e9)
    ]
    cases = {
        "marks": marks,
        "quantities": [(value, unit, isinstance(value, float)) for value, unit in quantities],
        "names": [(name, limit) for name in NAMES for limit in (160, 40)],
        "code": CODE,
        "gains": gains,
        "figures": [asdict(one) for one in FIGURES],
        "counts": (0, 1, 2, 999, 1000, 1_234_567),
    }
    told = answers("format/format.ts", RUNNER, cases, tmp_path)
    wrong = [
        (value, unit, here, there)
        for (value, unit), there in zip(quantities, told["quantities"], strict=True)
        if (here := quantity(value, unit)) != there
    ]
    assert not wrong, wrong[:20]
    assert told["marks"] == [on_axis(*case) for case in marks]
    numbers = [(value, unit) for value, unit in quantities if value is not None]
    assert told["differences"] == [signed(value, unit) for value, unit in numbers]
    assert told["names"] == [plain(name, limit) for name in NAMES for limit in (160, 40)]
    assert told["code"] == [code_lines(code) for code in CODE]
    assert told["gains"] == [
        gain_text(Gain(low_ns=low, high_ns=high, step_ns=step, basis="", confidence="table"), of_steps=of_steps)
        for low, high, step, of_steps in gains
    ]
    assert told["figures"] == [figure_text(one) for one in FIGURES]
    assert told["counts"] == [counted(number, "step") for number in (0, 1, 2, 999, 1000, 1_234_567)]
    assert quantity(math.nan, "ns") == ABSENT
