"""Rules about launches, small copies and operators on the CPU: what they count, and what they leave alone."""

import pytest

from stepscope.core.finding import Finding
from stepscope.core.synth import Synth
from stepscope.report.diagnose import RULES

SMALL = "Memcpy HtoD (Pageable -> Device)"


def found(rule: str, synth: Synth) -> list[Finding]:
    return list(RULES.get(rule).check(synth.run()))


def launching(call: float, kernels: int = 100) -> Synth:
    """Four steps of kernels of 0.5 ms, each launched 0.1 ms before by a call that lasts so many ms."""
    synth = Synth()
    for step in range(4):
        start, each = 100 * step, 100 / kernels
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + 100)
        for number in range(kernels):
            begin, correlation = start + number * each, step * kernels + number + 1
            synth.host("cudaLaunchKernel", "runtime", begin, begin + call, correlation=correlation)
            synth.kernel(begin + 0.1, begin + 0.6, correlation=correlation)
    return synth


@pytest.mark.parametrize(("call", "kernels", "findings"), [(0.65, 100, 1), (0.55, 100, 0), (0.65, 50, 0)])
def test_launches_that_last_longer_than_their_kernels_wait_for_them(call: float, kernels: int, findings: int) -> None:
    assert len(found("launch-blocking", launching(call, kernels))) == findings


def test_a_step_saves_no_more_than_the_device_idles() -> None:
    finding = found("launch-blocking", launching(0.65))[0]
    assert finding.gain is not None
    assert finding.gain.high_ns == 50_000_000  # kernels 50 ms, idle 50 ms


def copying(count: int, size: int, kind: str = SMALL) -> Synth:
    """Four steps of 100 ms that begin with copies of 0.5 ms each, which the device only sees the end of."""
    synth = Synth()
    for step in range(4):
        start = 100 * step
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + 100)
        for number in range(count):
            begin, correlation = start + 0.5 * number, step * 100 + number + 1
            synth.host("aten::to", "operator", begin, begin + 0.5)
            synth.host("cudaMemcpyAsync", "runtime", begin + 0.1, begin + 0.4, correlation=correlation)
            synth.kernel(begin + 0.4, begin + 0.5, kind, kind="memcpy", bytes=size, correlation=correlation)
        synth.kernel(start + 50, start + 100)
    return synth


@pytest.mark.parametrize(
    ("count", "size", "kind", "findings"),
    [
        (40, 8, SMALL, 1),
        (19, 8, SMALL, 0),
        (40, 4096, SMALL, 0),
        (40, 8, "Memcpy DtoH (Device -> Pageable)", 0),  # a blocking read: another rule
    ],
)
def test_many_small_copies_to_the_device_are_counted(count: int, size: int, kind: str, findings: int) -> None:
    assert len(found("tiny-copies", copying(count, size, kind))) == findings


def test_small_copies_cost_what_the_device_idles_in_their_operators() -> None:
    gain = found("tiny-copies", copying(40, 8))[0].gain
    assert gain is not None
    assert gain.high_ns == 16_000_000  # 40 × 0.4 ms


def computing(inside: str | None, thread: str = "1", length: float = 20) -> Synth:
    """Four steps of 100 ms with one operator; `inside` is a call in it."""
    synth = Synth()
    for step in range(4):
        start = 100 * step
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + 100)
        synth.host("aten::sort", "operator", start, start + length, thread=thread)
        if inside:
            synth.host(inside, "runtime", start + 1, start + length - 1, thread=thread)
        synth.host("cudaLaunchKernel", "runtime", start + 20, start + 20.1, correlation=step + 1)
        synth.kernel(start + 20, start + 100, correlation=step + 1)
    return synth


@pytest.mark.parametrize(
    ("synth", "findings"),
    [
        (computing(None), 1),
        (computing("cudaStreamSynchronize"), 0),
        (computing(None, thread="2"), 0),  # a thread that launches nothing: a worker's or another's
        (computing(None, length=0.09), 0),
    ],
)
def test_operators_without_a_call_compute_on_the_cpu(synth: Synth, findings: int) -> None:
    assert len(found("operators-on-cpu", synth)) == findings


def test_the_longest_operator_on_the_cpu_is_named() -> None:
    finding = found("operators-on-cpu", computing(None))[0]
    assert finding.title.figures[0] == "aten::sort"
    assert finding.gain is not None
    assert finding.gain.high_ns == 20_000_000
