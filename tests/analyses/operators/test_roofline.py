"""Rooflines counted by hand, on a device whose peaks are known: 312 TFLOP/s of bfloat16 and 1555 GB/s."""

import json
from pathlib import Path

import polars as pl
import pytest

from stepscope.analyses.device.device_time import device_time
from stepscope.analyses.operators.mfu import mfu
from stepscope.analyses.operators.roofline import roofline
from stepscope.analyses.operators.roofline_kinds import roofline_kinds
from stepscope.core.errors import MissingData
from stepscope.core.gpus import known_gpus
from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth
from stepscope.storage import open_run

A100 = {"name": "NVIDIA A100-SXM4-40GB", "memory": 42_505_273_344, "sms": 108}
SQUARE = [8192, 8192]
GEMM_FLOPS = 2.0 * 8192**3
GEMM_AT_PEAK = GEMM_FLOPS / 312e12 * 1e9  # 3.52 ms
ADD_BYTES = 3 * 2.0 * 8192**2
ADD_AT_PEAK = ADD_BYTES / 1555e9 * 1e9  # 0.26 ms


def call(synth: Synth, name: str, at: float, device_ms: float, *, rank: int = 0, kernel: str = "k") -> None:
    """An operator of two matrices that starts one kernel, 1 ms after itself."""
    inputs = {"input_dims": json.dumps([SQUARE, SQUARE]), "input_types": '["c10::BFloat16","c10::BFloat16"]'}
    synth.host(name, "operator", at, at + 0.5, rank=rank, **inputs)
    launched(synth, at + 0.1, at + 1, device_ms, rank=rank, kernel=kernel)


def launched(synth: Synth, launch: float, at: float, device_ms: float, *, rank: int = 0, kernel: str = "k") -> None:
    correlation = round(launch * 10) + 1
    synth.host("cudaLaunchKernel", "runtime", launch, launch + 0.1, correlation=correlation, rank=rank)
    synth.kernel(at, at + device_ms, kernel, correlation=correlation, rank=rank)


def step() -> Synth:
    """A step of 100 ms with two products of 5 and 9 ms, a sum of 0.5 ms and 5.5 ms of an operator nobody knows."""
    synth = Synth().add("devices", rank=0, device=0, **A100).host("ProfilerStep#3", "annotation", 0, 100)
    call(synth, "aten::mm", 10, 5)
    call(synth, "aten::mm", 20, 9)
    call(synth, "aten::add", 40, 0.5)
    synth.host("custom::fused", "operator", 50, 51)
    launched(synth, 50.1, 52, 5.5)
    synth.kernel(70, 80, "Memcpy HtoD (Pageable -> Device)", kind="memcpy")
    return synth.kernel(80, 90, "ncclDevKernel_AllReduce")


def test_a_roofline() -> None:
    first, second = roofline(step().run()).rows(named=True)
    assert first == {
        "rank": 0, "device": 0, "operator": "aten::mm", "kind": "GEMM", "input_dims": json.dumps([SQUARE, SQUARE]),
        "precision": "bfloat16", "calls": 2, "total": 14 * MS, "share": 0.7, "flops": 2 * GEMM_FLOPS,
        "bytes": 2 * ADD_BYTES, "speed": pytest.approx(2 * GEMM_FLOPS / 0.014),
        "bandwidth": pytest.approx(2 * ADD_BYTES / (14 * MS)), "intensity": pytest.approx(8192 / 3),
        "roofline": pytest.approx(2 * GEMM_AT_PEAK / (14 * MS)), "limit": "compute",
        "lost": round(14 * MS - 2 * GEMM_AT_PEAK),
    }  # fmt: skip
    assert (second["operator"], second["kind"], second["limit"]) == ("aten::add", "element-wise", "memory")
    assert second["roofline"] == pytest.approx(ADD_AT_PEAK / (0.5 * MS))


def test_kinds_add_up_to_the_computing_time() -> None:
    rows = {row["kind"]: row for row in roofline_kinds(step().run()).iter_rows(named=True)}
    assert {kind: row["total"] for kind, row in rows.items()} == {
        "GEMM": 14 * MS, "unknown": 5.5 * MS, "element-wise": 0.5 * MS,
    }  # fmt: skip
    gemm = rows["GEMM"]
    assert (gemm["gpu"], gemm["architecture"], gemm["calls"], gemm["share"], gemm["known"]) == (
        "A100 40GB", "Ampere", 2, 0.7, 1.0
    )  # fmt: skip
    assert gemm["lost"] == round(14 * MS - 2 * GEMM_AT_PEAK)
    assert [rows["unknown"][name] for name in ("known", "flops", "roofline", "lost")] == [0.0, None, None, None]


def test_model_flops_utilization_says_how_much_it_covers() -> None:
    assert mfu(step().run()).rows(named=True) == [
        {
            "rank": 0, "device": 0, "gpu": "A100 40GB", "step": 3, "duration": 100 * MS, "flops": 2 * GEMM_FLOPS,
            "speed": pytest.approx(2 * GEMM_FLOPS / 0.1), "mfu": pytest.approx(2 * GEMM_AT_PEAK / (100 * MS)),
            "coverage": pytest.approx(14.5 / 20),
        }
    ]  # fmt: skip


def test_float32_on_tensor_cores_is_held_against_tf32() -> None:
    synth = Synth().add("devices", rank=0, device=0, **A100)
    dims, types = json.dumps([SQUARE, SQUARE]), '["float","float"]'
    for at, kernel in ((0, "ampere_sgemm_128x64_tn"), (40, "sm80_xmma_gemm_tf32f32_tf32f32_f32_tn_n_tensor16x8x8")):
        synth.host("aten::mm", "operator", at, at + 1, input_dims=dims, input_types=types)
        launched(synth, at + 0.1, at + 1, 100, kernel=kernel)
    rows = {row["precision"]: row["roofline"] for row in roofline(synth.run()).iter_rows(named=True)}
    assert rows == {
        "tf32": pytest.approx(GEMM_FLOPS / 156e12 / 0.1), "float32": pytest.approx(GEMM_FLOPS / 19.5e12 / 0.1),
    }  # fmt: skip


def test_kernels_as_short_as_a_launch_are_limited_by_neither() -> None:
    synth = Synth().add("devices", rank=0, device=0, **A100)
    synth.host("aten::add", "operator", 0, 1, input_dims="[[64],[64]]", input_types='["float","float"]')
    launched(synth, 0.1, 1, 0.004)
    assert roofline(synth.run()).select("limit", "lost").rows() == [("launch", 4_000)]


def test_nothing_is_said_of_the_roof_of_an_unknown_device() -> None:
    synth = Synth().add("devices", rank=0, device=0, name="Abacus 3000", memory=2**30)
    call(synth, "aten::mm", 10, 5)
    (row,) = roofline(synth.run()).rows(named=True)
    assert row["speed"] == pytest.approx(GEMM_FLOPS / 0.005)
    assert [row[name] for name in ("roofline", "limit", "lost")] == [None, None, None]
    assert roofline_kinds(synth.run()).select("gpu", "known", "roofline").rows() == [(None, 1.0, None)]
    assert mfu(synth.run()).select("gpu", "mfu", "coverage").rows() == [(None, None, 1.0)]


def test_a_device_of_unknown_bandwidth_has_no_roof_but_a_share_of_its_arithmetic() -> None:
    synth = Synth().add("devices", rank=0, device=0, name="NVIDIA H20", memory=150_000_000_000, sms=78)
    synth.host("ProfilerStep#3", "annotation", 0, 100)
    call(synth, "aten::mm", 10, 50)
    assert roofline(synth.run()).select("roofline", "limit", "lost").rows() == [(None, None, None)]
    assert mfu(synth.run()).select("gpu", "mfu").rows() == [
        ("H20 141GB", pytest.approx(GEMM_FLOPS / 148e12 / 0.1)),
    ]  # fmt: skip


def test_work_of_an_operator_inside_counts_for_the_call_around_it() -> None:
    synth = Synth().add("devices", rank=0, device=0, **A100)
    call(synth, "aten::mm", 0, 2)
    synth.host("library::gemm", "operator", 0.2, 0.4)
    launched(synth, 0.3, 3, 1)
    assert roofline(synth.run()).select("operator", "calls", "total").rows() == [("aten::mm", 1, 3 * MS)]


def test_without_a_device_the_time_is_the_hosts() -> None:
    synth = Synth()
    synth.host("aten::mm", "operator", 0, 10, input_dims="[[8,8],[8,8]]", input_types='["float","float"]')
    synth.host("aten::copy_", "operator", 2, 3, input_dims="[[8,8],[8,8]]", input_types='["float","float"]')
    rows = roofline(synth.run()).select("device", "operator", "total", "flops", "roofline").rows()
    assert rows == [(None, "aten::mm", 9 * MS, 1024.0, None), (None, "aten::copy_", 1 * MS, 0.0, None)]


def test_without_shapes_it_says_how_to_record_them() -> None:
    synth = Synth().host("aten::mm", "operator", 0, 10)
    launched(synth, 1, 2, 5)
    for analysis in (roofline, roofline_kinds, mfu):
        with pytest.raises(MissingData, match="--with shapes"):
            analysis(synth.run())


def test_time_units_and_order_do_not_matter() -> None:
    run = step().run()
    shuffled = Run({name: table.sample(fraction=1, shuffle=True, seed=3) for name, table in run.tables.items()})
    for analysis in (roofline, roofline_kinds, mfu):
        assert analysis(shuffled).equals(analysis(run))
    at_peak = roofline(run).select(pl.col("roofline") * pl.col("total"))["roofline"].to_list()
    assert at_peak == pytest.approx([2 * GEMM_AT_PEAK, ADD_AT_PEAK])


TRACES = {
    "tracelens/h100/Falconsai_nsfw_image_detection__1016002.json.gz": "H100 SXM",
    "tracelens/h100/gaunernst_bert-small-uncased__1016001.json.gz": "H100 SXM",
    "tracelens/mi300/gaunernst_bert-small-uncased__1016001.json.gz": "MI300X",
    "tracelens/mi300/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz": "MI300X",
    "particle_transformer/batch_size_128/hmoss-6a49xb_1987242.1733769848514071115.pt.trace.json.gz": "A100 40GB",
}


@pytest.mark.parametrize("name", TRACES)
def test_no_heavy_work_of_a_real_trace_beats_its_device(name: str, corpus: Path) -> None:
    run = open_run([corpus / "traces" / name])
    kinds = roofline_kinds(run)
    assert kinds["gpu"].unique().to_list() == [TRACES[name]]
    assert kinds["total"].sum() >= device_time(run)["compute_busy"].sum()
    heavy = roofline(run).filter(pl.col("kind").is_in(["GEMM", "convolution", "attention"]))
    assert heavy["flops"].null_count() == 0
    assert heavy.select(pl.col("roofline").is_between(0, 1, closed="right").all()).item()
    peak = max(next(gpu for gpu in known_gpus() if gpu.name == TRACES[name]).matrix.values())
    assert heavy.select((pl.col("speed") < peak).all()).item()
