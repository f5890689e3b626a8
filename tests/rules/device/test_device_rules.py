"""Rules about devices on runs where the same figures have another reason: communication beside, servers, few gaps."""

import pytest

from stepscope.analyses.host.lib.recording_cost import MEASURED
from stepscope.analyses.memory.memory_peaks import OUT_OF_MEMORY
from stepscope.core.synth import MS, Synth
from stepscope.render.verdict import sentence
from stepscope.report.diagnose import diagnose


def rules_of(synth: Synth) -> list[str]:
    return [block.rule for block in diagnose(synth.run()).findings]


@pytest.mark.parametrize(
    ("kernel", "blocks", "communicates", "found"),
    [
        ("elementwise_kernel", 0.5, False, ["small-kernels"]),
        ("elementwise_kernel", 0.5, True, []),  # multiprocessors are left to communication on purpose
        ("deep_gemm::fp8_gemm_kernel", 0.85, False, []),
        ("deep_gemm::fp8_gemm_kernel", 0.25, False, ["small-kernels"]),
        ("elementwise_kernel", 0.85, False, ["small-kernels"]),
    ],
)
def test_small_kernels_are_those_that_leave_the_device_empty_for_nothing(
    kernel: str, blocks: float, communicates: bool, found: list[str]
) -> None:
    synth = Synth()
    for step in range(4):
        start = 100 * step
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + 100)
        synth.kernel(start, start + 50, blocks_per_sm=8.0)
        synth.kernel(start + 50, start + 100, kernel, blocks_per_sm=blocks)
        if communicates:
            synth.kernel(start + 45, start + 100, "void deep_ep::internode::dispatch<4>(int4*)", stream="9")
    assert rules_of(synth) == found


@pytest.mark.parametrize(
    ("operator", "failed", "found"),
    [
        ("autograd::engine::evaluate_function: MmBackward0", 0, ["memory-near-limit"]),
        ("aten::mm", 0, []),  # a server keeps its cache in all memory there is
        ("aten::mm", 2, ["memory-near-limit"]),
    ],
)
def test_memory_that_a_server_fills_by_design_is_no_finding(operator: str, failed: int, found: list[str]) -> None:
    synth = Synth().add("devices", device=0, name="a GPU", memory=8 << 30)
    for step in range(4):
        start = 100 * step
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + 100)
        synth.host("aten::mm", "operator", start, start + 1)
        synth.host(operator, "operator", start + 1, start + 2)
        synth.kernel(start, start + 100)
        synth.add(
            "memory", thread="1", time=(start + 10) * MS, device_type=1, device=0, bytes=1 << 20,
            total_allocated=15 << 29, total_reserved=15 << 29,
        )  # fmt: skip
        for _ in range(failed):
            synth.add("instants", name=OUT_OF_MEMORY, time=(start + 20) * MS)
    assert rules_of(synth) == found


def test_a_server_gets_no_advice_for_training() -> None:
    synth = Synth()
    for step in range(4):
        start = 100 * step
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + 100)
        synth.host("aten::mm", "operator", start, start + 1)
        synth.kernel(start, start + 60)
        synth.kernel(start + 60, start + 100, "void vllm::cross_device_reduce_1stage<half, 2>(void*)", stream="9")
    (block,) = diagnose(synth.run()).findings
    assert block.rule == "exposed-communication"
    assert not any("Distributed" in advice.code or "no_sync" in advice.code for advice in block.finding.advice)


@pytest.mark.parametrize(
    ("operator", "told"), [("fbgemm::split_embedding_codegen_lookup", "embedding"), ("aten::embedding", "experts")]
)
def test_all_to_all_is_of_embedding_tables_or_of_experts(operator: str, told: str) -> None:
    synth = Synth()
    for step in range(4):
        start = 100 * step
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + 100)
        synth.host(operator, "operator", start, start + 1)
        synth.kernel(start, start + 60)
        synth.kernel(start + 60, start + 100, "ncclDevKernel_SendRecv", stream="9", collective="all_to_all")
    (block,) = diagnose(synth.run()).findings
    assert all(told in advice.text for advice in block.finding.advice)


def idle(*gaps: float) -> Synth:
    """A trace with shapes: 10 ms of work, then after each gap 1 ms more."""
    synth, at = Synth().kernel(0, 10).host("aten::mm", "operator", 0, 1, input_dims="[[2]]"), 10.0
    for gap in gaps:
        synth.host("cudaLaunchKernel", "runtime", at, at + gap, correlation=int(at))
        synth.kernel(at + gap, at + gap + 1, correlation=int(at))
        at += gap + 1
    return synth


def test_few_long_gaps_are_named() -> None:
    verdict = diagnose(idle(600, 300, 5).run()).verdict
    assert (verdict.bound, verdict.gaps) == (
        "host", ((600 * MS, "cudaLaunchKernel"), (300 * MS, "cudaLaunchKernel")),
    )  # fmt: skip
    told = sentence(verdict)
    assert "Longest gaps: 600 ms in cudaLaunchKernel, 300 ms in cudaLaunchKernel" in told


def test_of_many_small_gaps_none_is_named() -> None:
    verdict = diagnose(idle(*[3] * 40).run()).verdict
    assert (verdict.bound, verdict.gaps) == ("host", ())


@pytest.mark.parametrize(("cost", "rules", "bound"), [(1, ["host-bound"], "host"), (29, [], "device")])
def test_a_slow_host_is_concluded_from_what_recording_leaves_of_it(
    monkeypatch: pytest.MonkeyPatch, cost: int, rules: list[str], bound: str
) -> None:
    """30 ms of 100 are idle; of these the profiler takes 1 or 29, for the mark of the step, the only operator."""
    monkeypatch.setitem(MEASURED, "operator", cost * MS)
    synth = Synth()
    for step in range(4):
        start = 100 * step
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + 100)
        synth.host("cudaLaunchKernel", "runtime", start + 30, start + 30.1, correlation=step)
        synth.kernel(start + 30, start + 100, correlation=step)
    assert sorted(rules_of(synth)) == rules
    verdict = diagnose(synth.run()).verdict
    assert (verdict.bound, verdict.likely) == (bound, cost > 1)


def test_a_host_that_lets_the_device_idle_is_found_at_the_line_it_is_in() -> None:
    synth = Synth().host("train.py(12): main", "python", 0, 400).host("model.py(40): forward", "python", 1, 399)
    for step in range(4):
        start = 100 * step
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + 100)
        synth.host("cudaLaunchKernel", "runtime", start + 60, start + 60.1, correlation=step)
        synth.kernel(start + 60, start + 100, correlation=step)
    (block,) = diagnose(synth.run()).findings
    (place,) = block.finding.where
    assert (block.rule, place.file, place.line, place.symbol) == ("host-bound", "model.py", 40, "forward")
    assert (place.share, place.of) == (1.0, "GPU idle time")
