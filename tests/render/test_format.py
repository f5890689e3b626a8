"""How numbers and names become text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.core.finding import Gain, Place
from stepscope.core.report import Bound, Text, Value, Verdict
from stepscope.core.schema import Unit
from stepscope.render.format import (
    basis_texts,
    cell,
    code_lines,
    counted,
    gain_text,
    on_axis,
    place_text,
    plain,
    progress,
    quantity,
    shorten,
    text,
)
from stepscope.render.verdict import sentence

MS = 1_000_000


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (0, "ns", "0 ns"),
        (999, "ns", "999 ns"),
        (1_000, "ns", "1 µs"),
        (41_234_567, "ns", "41.2 ms"),
        (41_000_000, "ns", "41 ms"),
        (999_949, "ns", "1 ms"),
        (999_400, "ns", "999 µs"),
        (1_234_567_890_123, "ns", "1,230 s"),
        (-2_500_000, "ns", "-2.5 ms"),
        (None, "ns", "–"),
        (float("nan"), "ns", "–"),
        (float("inf"), "ratio", "–"),
        (0.634, "ratio", "63 %"),
        (0.0995, "ratio", "10 %"),
        (0.0994, "ratio", "9.9 %"),
        (0.05, "ratio", "5 %"),
        (0.00031, "ratio", "<0.1 %"),
        (0.0, "ratio", "0 %"),
        (1.0, "ratio", "100 %"),
        (0, "bytes", "0 B"),
        (1023, "bytes", "1023 B"),
        (1536, "bytes", "1.5 KiB"),
        (2**30, "bytes", "1 GiB"),
        (2**20 - 1, "bytes", "1 MiB"),
        (8.73e-4, "count", "0.000873"),
        (8.73e-7, "count", "8.73e-07"),
        (150_754_820_096, "bytes", "140 GiB"),
        (1240, "count", "1,240"),
        (1234567, "count", "1,234,567"),
        (2.5, "count", "2.5"),
        (12345.6, "count", "12,346"),
        (211.4, "watts", "211 W"),
        (12.34, "GB/s", "12.3 GB/s"),
        (2.51e-05, "GB/s", "25.1 kB/s"),
        (12, "FLOP", "12 FLOP"),
        (2.46e12, "FLOP/s", "2.46 TFLOP/s"),
        (1238.5, "money", "1,240"),
        (12.0, "money", "12.00"),
        (3.5, "money", "3.50"),
        (0.01234, "money", "0.0123"),
        (0.0, "money", "0"),
        (1240, None, "1240"),
        (0.00012, None, "0.00012"),
        (3.14159, None, "3.14"),
    ],
)
def test_quantity(value: float | None, unit: Unit | None, expected: str) -> None:
    assert quantity(value, unit) == expected


@given(st.floats(min_value=1, max_value=1e18), st.sampled_from(["ns", "bytes"]))
def test_a_quantity_keeps_three_digits(value: float, unit: Unit) -> None:
    scales = {"ns": 1.0, "µs": 1e3, "ms": 1e6, "s": 1e9}
    scales |= {"B": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40}
    number, suffix = quantity(value, unit).split(" ")
    assert float(number.replace(",", "")) * scales[suffix] == pytest.approx(value, rel=5.1e-3)


@pytest.mark.parametrize(
    ("low", "high", "step", "expected"),
    [
        (12 * MS, 20 * MS, 150 * MS, "could save 8–13 % (12–20 ms per step)"),
        (0, 20 * MS, 100 * MS, "could save up to 20 % (20 ms per step)"),
        (12 * MS, 12 * MS, 100 * MS, "could save 12 % (12 ms per step)"),
        (400_000, 2 * MS, 100 * MS, "could save 0.4–2 % (0.4–2 ms per step)"),
        (12 * MS, 20 * MS, None, "could save 12–20 ms of the recorded time"),
        (90 * MS, 100 * MS, 100 * MS, "could save 90–100 % (90–100 ms per step)"),
        (0, 0, 100 * MS, "could save up to 0 % (0 ns per step)"),
    ],
)
def test_gain(low: int, high: int, step: int | None, expected: str) -> None:
    gain = Gain(low_ns=low, high_ns=high, step_ns=step or high, basis="", confidence="structural")
    assert gain_text(gain, of_steps=step is not None) == expected


def test_all_marks_of_an_axis_are_in_one_unit() -> None:
    assert [on_axis(value, "ns", 2e7) for value in (0, 5e5, 2e7)] == ["0 ms", "0.5 ms", "20 ms"]
    assert on_axis(0, "bytes", 3 * 2**30) == "0 GiB"
    assert on_axis(12, None, 400) == "12"


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        ("input", "Data-loading bound: 63 % of each 41.2 ms step waits for data."),
        (
            "host",
            "Host-bound: the device idles 63 % of each 41.2 ms step waiting for the host.",
        ),
        ("device", "Compute-bound: kernels take 63 % of each 41.2 ms step."),
        (
            "communication",
            "Communication-bound: exposed communication takes 63 % of each 41.2 ms step.",
        ),
        (
            "memory",
            "Copy-bound: exposed copies and memsets take 63 % of each 41.2 ms step.",
        ),
        ("balanced", "Balanced: nothing alone limits each 41.2 ms step."),
    ],
)
def test_sentence(bound: Bound, expected: str) -> None:
    assert sentence(Verdict(bound, 0.634, 41_234_567)) == expected


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        ("device", "Compute-bound (CPU): operators take 63 % of each 41.2 ms step."),
        ("host", "Host-bound: Python and file I/O take 63 % of each 41.2 ms step."),
        ("input", "Data-loading bound: 63 % of each 41.2 ms step waits for data."),
    ],
)
def test_where_the_cpu_computes_no_sentence_speaks_of_an_accelerator(bound: Bound, expected: str) -> None:
    assert sentence(Verdict(bound, 0.634, 41_234_567, on_cpu=True)) == expected


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (
            0,
            "Data-loading bound: 63 % of the 41.2 ms from first to last device work waits for data. "
            "No steps are marked.",
        ),
        (1, "Data-loading bound: 63 % of one 41.2 ms step waits for data."),
        (2, "Data-loading bound: 63 % of each 41.2 ms step waits for data. From 2 steps only."),
        (9, "Data-loading bound: 63 % of each 41.2 ms step waits for data. From 9 steps only."),
        (10, "Data-loading bound: 63 % of each 41.2 ms step waits for data."),
        (None, "Data-loading bound: 63 % of each 41.2 ms step waits for data."),
    ],
)
def test_a_sentence_says_on_how_little_it_rests(steps: int | None, expected: str) -> None:
    assert sentence(Verdict("input", 0.634, 41_234_567, steps=steps)) == expected


def test_a_sentence_without_a_limit_says_it_too() -> None:
    balanced = Verdict("balanced", None, 41_234_567, steps=1)
    assert sentence(balanced) == "Balanced: nothing alone limits one 41.2 ms step."


@pytest.mark.parametrize(
    ("rank", "ranks", "of", "expected"),
    [
        (0, (0,), 1, "Data-loading bound: 63 % of each 41.2 ms step waits for data."),
        (1, (1,), 2, "Data-loading bound on rank 1 of 2 ranks: 63 % of each 41.2 ms step waits for data."),
        (
            1,
            (0, 1),
            2,
            "Data-loading bound on both ranks: 63 % of each 41.2 ms step waits for data (figures of rank 1).",
        ),
        (
            5,
            (0, 3, 5),
            8,
            "Data-loading bound on ranks 0, 3, 5 of 8 ranks: "
            "63 % of each 41.2 ms step waits for data (figures of rank 5).",
        ),
        (
            5,
            tuple(range(12)),
            16,
            "Data-loading bound on 12 of 16 ranks: 63 % of each 41.2 ms step waits for data (figures of rank 5).",
        ),
    ],
)
def test_a_sentence_says_for_which_ranks_it_holds(rank: int, ranks: tuple[int, ...], of: int, expected: str) -> None:
    assert sentence(Verdict("input", 0.634, 41_234_567, rank=rank, ranks=ranks, of_ranks=of)) == expected


def test_a_verdict_without_figures_invents_none() -> None:
    cpu_contention = Verdict("input", 0.25, 20_000_000, core_wait=0.14)
    assert sentence(cpu_contention) == (
        "Partly data-loading bound: 11 % of each 20 ms step waits for data, 14 % for CPU cores busy with workers."
    )
    many_threads = Verdict("device", 0.98, 77_100_000, on_cpu=True, core_wait=0.71)
    assert sentence(many_threads) == (
        "Compute-bound (CPU): operators compute 27 % of each 77.1 ms step and wait 71 % for a CPU core."
    )
    assert sentence(Verdict("input", None, None)) == "Data-loading bound: most of each step waits for data."
    slowed = Verdict("host", 0.27, 40_000_000, share_unrecorded=0.158, likely=True)
    assert sentence(slowed) == (
        "Partly host-bound, likely: the device idles 27 % (16–27 % without the profiler's cost) of each 40 ms step "
        "waiting for the host."
    )
    assert "kernels take 85 % (up to 91 % without the profiler's cost)" in sentence(
        Verdict("device", 0.85, 40_000_000, share_unrecorded=0.91)
    )
    late = Verdict("communication", 0.27, 615_000_000, unexplained=0.31)
    assert sentence(late) == (
        "Partly communication-bound: exposed communication takes 27 % of each 615 ms step. The device idles 31 % of "
        "the step for a reason not in the trace."
    )
    gap = Verdict("device", 0.0206, 474e6, steps=0, unexplained=0.978, gaps=((463e6, "hipMemcpyWithStream"),))
    assert sentence(gap) == (
        "Compute-bound: kernels take 94 % of the time that the trace explains. The device idles 98 % of the 474 ms "
        "from first to last device work for a reason not in the trace. Longest gap: 463 ms in hipMemcpyWithStream. "
        "No steps are marked."
    )
    assert sentence(Verdict("unknown", None, None, "no step was recorded")) == "Unknown: no step was recorded."
    assert sentence(Verdict("unknown", None, None)) == "Unknown: the run does not say where its time goes."


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("aten::add", "aten::add"),
        ("\x1b[2J\x1b]0;pwned\x07", r"\x1b[2J\x1b]0;pwned\x07"),
        ("two\nlines\r", r"two\nlines\r"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("C1 \x9b31m", r"C1 \x9b31m"),
        ("half \ud800", r"half \ud800"),
        ("模型 é 👩\u200d🔬", "模型 é 👩\u200d🔬"),
        ("\u2028", r"\u2028"),
    ],
)
def test_plain(name: str, expected: str) -> None:
    assert plain(name) == expected


@given(st.text(st.characters(), max_size=300), st.integers(10, 100))
def test_no_name_disturbs_a_terminal(name: str, limit: int) -> None:
    shown = plain(name, limit)
    assert all(letter.isprintable() or letter in " \u200c\u200d\u00a0\u3000" or ord(letter) > 0xFF for letter in shown)
    assert "\x1b" not in shown
    assert "\n" not in shown
    shown.encode()


def test_a_long_name_loses_its_middle() -> None:
    assert shorten("void gemm<" + "float, " * 30_000 + ">(Tensor)", 30) == "void gemm<float, flo…>(Tensor)"
    assert len(plain("x" * 200_000)) == 160


def test_code_keeps_its_lines_and_indentation() -> None:
    assert code_lines("for x in y:\n\tstep(x)  # \x1b[31m\n") == ["for x in y:", r"    step(x)  # \x1b[31m"]


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [(True, None, "yes"), (False, None, "no"), (None, "ns", "–"), ("a\tb", None, r"a\tb")],
)
def test_cell(value: object, unit: Unit | None, expected: str) -> None:
    assert cell(value, unit) == expected


def test_words() -> None:
    assert counted(1, "step") == "1 step"
    assert counted(1240, "step") == "1,240 steps"
    assert counted(0, "rank") == "0 ranks"
    assert counted(2, "batch", "batches") == "2 batches"
    assert text(Text("{} of {}{{}}", (Value(1500, "count"), Value(3e6, "ns")))) == "1,500 of 3 ms{}"
    assert place_text(Place(file="train.py", line=41)) == "train.py:41"
    assert place_text(Place(file="train.py", line=41, symbol="main")) == "train.py:41 in main"
    assert progress(1240, 41_234_567, 0.634) == "step 1,240 · 41.2 ms/step · data wait 63 %"
    assert progress(3, 41_000_000, None) == "step 3 · 41 ms/step"


def test_code_whose_replacement_is_unknown_has_a_ceiling_and_a_curve() -> None:
    """The ceiling is the upper end; without brackets, and with the method alone, the curve stays."""
    curve = ((2.0, 38_000_000), (4.0, 57_000_000))
    gain = Gain(
        low_ns=70_000_000, high_ns=76_000_000, step_ns=100_000_000, basis="simulated: without this code (cores full)",
        confidence="structural", curve=curve,
    )  # fmt: skip
    assert gain_text(gain, of_steps=True) == "could save up to 76 % (76 ms per step)"
    assert basis_texts(gain) == (
        "simulated: without this code (cores full); 2× faster could save 38 %, 4× 57 %",
        "simulated: without this code; 2× faster could save 38 %, 4× 57 %",
        "simulated; 2× faster could save 38 %, 4× 57 %",
    )
