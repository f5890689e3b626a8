"""Times of modules against an instant by instant count of random nestings."""

from collections import defaultdict
from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.analyses.modules.modules import modules
from stepscope.core.synth import MS, Synth

LENGTH = 40  # ms, the resolution is 1 ms
Range = tuple[int, int, str]


@st.composite
def nestings(draw: st.DrawFn) -> list[Range]:
    """Ranges that nest: (start, end, M for a module, O for an operator, K for a launch of a kernel of 1 ms)."""
    return list(_filled(draw, 0, LENGTH, 3))


def _filled(draw: st.DrawFn, start: int, end: int, levels: int) -> Iterator[Range]:
    at = start
    while levels and at + 1 < end and draw(st.booleans()):
        first = draw(st.integers(at, end - 2))
        last = draw(st.integers(first + 1, end - 1))
        kind = draw(st.sampled_from("MOK"))
        yield first, last, kind
        if kind != "K":
            yield from _filled(draw, first, last, levels - 1)
        at = last + 1


@settings(max_examples=60, deadline=None)
@given(nestings())
def test_each_instant_belongs_to_the_innermost_module(ranges: list[Range]) -> None:
    synth = Synth().host("aten::outside", "operator", LENGTH + 1, LENGTH + 2)
    frames = 0
    for number, (start, end, kind) in enumerate(ranges):
        if kind == "M":
            synth.host(f"nn.Module: M_{number}", "python", start, end, module_id=number)
            frames += 1
        elif kind == "O":
            synth.host("aten::op", "operator", start, end)
        else:
            synth.host("cudaLaunchKernel", "runtime", start, end, correlation=number + 1)
            synth.kernel(start, start + 1, correlation=number + 1)
    if not frames:
        return
    table = modules(synth.run()).drop_nulls("module")
    own, python, device = counted(ranges)
    for row in table.iter_rows(named=True):
        name = row["module"].rpartition(".")[2]
        assert (row["host_self"], row["host_python"]) == (own[name] * MS, python[name] * MS)
        if row["device_self"] is not None:
            assert row["device_self"] == device[name] * MS


def counted(ranges: list[Range]) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    """By module: instants in it and in no module inside; those that are in nothing else either; kernels launched."""
    own, python, device = defaultdict[str, int](int), defaultdict[str, int](int), defaultdict[str, int](int)
    for instant in range(LENGTH):
        open_ranges = [(start, -end, n) for n, (start, end, _) in enumerate(ranges) if start <= instant < end]
        around = [n for _, _, n in sorted(open_ranges)]
        inside = [n for n in around if ranges[n][2] == "M"]
        if inside:
            own[f"M_{inside[-1]}"] += 1
            if around[-1] == inside[-1]:
                python[f"M_{inside[-1]}"] += 1
    for number, (start, end, kind) in enumerate(ranges):
        holders = [n for n, (a, b, k) in enumerate(ranges) if k == "M" and a <= start and end <= b and n < number]
        if kind == "K" and holders:
            device[f"M_{max(holders, key=lambda n: (ranges[n][0], n))}"] += 1
    return own, python, device
