"""Kinds of kernels and their overlap against Holistic Trace Analysis, for traces in microseconds.

HTA leaves the last of several steps out, as test_golden_hta.py says.
"""

from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.analyses.device.device_overlap import device_overlap
from stepscope.analyses.device.device_time import device_time
from stepscope.analyses.lib.device_work import device_work
from stepscope.core.synth import MS, Synth
from stepscope.storage import open_run

from ..hta import ALL, TWO_RANKS, as_hta_keeps_it, golden_of, trace_of

US = 1000
KINDS = {"COMPUTATION": "compute", "COMMUNICATION": "communication", "MEMORY": "memory"}


def test_every_combination_by_hand() -> None:
    synth = Synth().kernel(0, 50).kernel(40, 70, "ncclDevKernel_AllReduce", stream="9")
    synth.kernel(45, 47, "Memcpy HtoD", kind="memcpy").kernel(60, 80, "Memset", kind="memset").kernel(90, 91)
    assert [(row[2], row[3] / MS) for row in device_overlap(synth.run()).rows()] == [
        ("compute", 41), ("communication", 10), ("memory", 10), ("compute+communication", 8), ("compute+memory", 0),
        ("communication+memory", 10), ("compute+communication+memory", 2), ("idle", 10),
    ]  # fmt: skip


WORK = {"compute": ("k", "kernel"), "communication": ("ncclDevKernel_AllReduce", "kernel"), "memory": ("m", "memset")}


@given(st.lists(st.tuples(st.sampled_from(sorted(WORK)), st.integers(0, 30), st.integers(1, 9)), min_size=1))
@settings(max_examples=50, deadline=None)
def test_each_instant_is_in_one_combination(work: list[tuple[str, int, int]]) -> None:
    synth = Synth()
    for number, (role, start, length) in enumerate(work):
        name, kind = WORK[role]
        synth.kernel(start, start + length, name, kind=kind, stream=str(number))
    first, last = min(start for _, start, _ in work), max(start + length for _, start, length in work)
    instants = [
        "+".join(role for role in WORK if any(r == role and s <= at < s + length for r, s, length in work)) or "idle"
        for at in range(first, last)
    ]
    found = {row[2]: row[3] // MS for row in device_overlap(synth.run()).rows() if row[3]}
    assert found == dict(Counter(instants))


@pytest.mark.parametrize("name", ALL)
def test_overlapping_kinds_are_htas(corpus: Path, name: str) -> None:
    run = as_hta_keeps_it(open_run(trace_of(corpus, name)))
    times = dict(device_overlap(run).group_by("kinds").agg(pl.col("duration").sum()).iter_rows())
    for row in golden_of(corpus, name)["gpu_time_by_kernel_type"]["rows"]:
        kinds = {KINDS[kind] for kind in row["kernel_type"].split(" overlapping ")}
        (own,) = [kind for kind in times if set(kind.split("+")) == kinds]
        assert times.pop(own) == row["sum_us"] * US, row
    times.pop("idle")
    assert not any(times.values())


@pytest.mark.parametrize("name", ALL)
def test_every_kernel_has_htas_kind(corpus: Path, name: str) -> None:
    work = device_work(open_run(trace_of(corpus, name)), "name").select("name", "role").unique()
    roles = dict(work.iter_rows())
    rows = [row for row in golden_of(corpus, name)["gpu_time_by_kernel_name"] if row["kernel_type"] in KINDS]
    assert {row["name"]: roles[row["name"]] for row in rows} == {row["name"]: KINDS[row["kernel_type"]] for row in rows}


def test_the_parts_are_those_of_device_time(corpus: Path) -> None:
    run = open_run(trace_of(corpus, TWO_RANKS))
    exposed = device_overlap(run).filter(pl.col("kinds").is_in(["communication", "communication+memory"]))
    assert exposed.group_by("rank", maintain_order=True).agg(pl.col("duration").sum())["duration"].to_list() == (
        device_time(run)["exposed_communication"].to_list()
    )
