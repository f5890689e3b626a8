"""The views of operators and kernels on real traces: the plugin's answers, and that nothing is lost in any of them."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from stepscope.analyses.device.kernel_launches import kernel_launches
from stepscope.analyses.device.kernels import kernels
from stepscope.analyses.operators.operator_kernels import operator_kernels
from stepscope.analyses.operators.operators import operators
from stepscope.analyses.operators.operators_by_shape import operators_by_shape
from stepscope.analyses.operators.operators_by_stack import operators_by_stack
from stepscope.core.errors import MissingData
from stepscope.core.run import Run
from stepscope.storage import open_run

from ..hta import ALL, as_hta_keeps_it, golden_of, trace_of

pytestmark = pytest.mark.slow

Golden = dict[str, Any]
Launch = tuple[object, ...]
US = 1000
GRID = 0.25  # us: the plugin's floats at the time stamps of these traces
ON_DEVICE = ("kernel", "memcpy", "memset")
# External ids in these inputs contradict time: they name an operator that does not hold the launch, or none does.
EXTERNAL_IDS_CONTRADICT_TIME = {
    "kineto/unit/test_gpu_utilization.1",
    "kineto/unit/test_group_by_kernel_columns.1",
    "kineto/unit/test_group_by_kernel_columns_invalid_input.1",
    "kineto/unit/test_memory_view.1",
}
# One of 75 kernels has the External id of another operator than the one around its launch.
ONE_KERNEL_ELSEWHERE = {("hta/ns_resolution_trace/rank-0.Apr_03_18_51_38.1102.pt.trace", "aten::mul", "[2, 1, 1]", 75)}
# The plugin's words for "in no operator": its root of a thread, and the step, which is no operator either.
NO_OPERATOR = ("CallTreeRoot", "ProfilerStep#1", "N/A", "")


def _trace(corpus: Path, name: str) -> Path:
    suffixes = (".json.gz", ".json", ".gz", ".pt.trace.json")
    return next(path for path in (corpus / "traces" / f"{name}{suffix}" for suffix in suffixes) if path.is_file())


def _golden(corpus: Path, name: str, *tables: str) -> list[Golden]:
    golden = json.loads((corpus / "golden" / "tb" / f"{name}.json").read_text())
    rows = [row for table in tables for row in golden.get(table, [])]
    if not rows:
        pytest.skip("the plugin's answers for this trace hold no such table")
    return rows


def _plain(value: object) -> object:
    """Lists in one form, numbers as such, and None for the plugin's words for nothing."""
    if value in (None, "None", "nan"):
        return None
    return json.dumps(json.loads(value)) if isinstance(value, str) else value


def _number(value: object) -> int | None:
    return None if _plain(value) is None else int(float(str(value)))


def test_the_plugins_operators_by_shape(corpus: Path, plugin_golden: str) -> None:
    expected = _golden(corpus, plugin_golden, "operators_by_input_shape")
    run = open_run(_trace(corpus, plugin_golden))
    try:
        table = operators_by_shape(run)
    except MissingData:  # the plugin shows operators by name where no shapes were recorded
        assert {row["input_shape"] for row in expected} == {"[]"}
        return
    table = table.with_columns(pl.col("input_dims").fill_null("[]"))
    summed = table.group_by("name", "input_dims").agg(
        pl.col("calls", "host_total", "host_self", "device_total", "device_self").sum()
    )
    found = {(row["name"], _plain(row["input_dims"])): row for row in summed.iter_rows(named=True)}
    assert [wrong for row in expected for wrong in _shape_differs(found, row)] == []


def _shape_differs(found: dict[tuple[object, object], Golden], expected: Golden) -> Iterable[object]:
    row = found[expected["name"], _plain(expected["input_shape"])]
    if row["calls"] != expected["calls"]:
        yield expected, row
    for key in ("host_total", "host_self", "device_total", "device_self"):
        if key in expected and abs(row[key] / US - expected[key]) > 1 + GRID * expected["calls"]:
            yield expected["name"], key, expected[key], row[key]


def test_the_plugins_kernels_by_launch_and_operator(corpus: Path, plugin_golden: str) -> None:
    expected = _golden(corpus, plugin_golden, "kernels_by_operator_and_launch", "kernels_by_name_op")
    if plugin_golden in EXTERNAL_IDS_CONTRADICT_TIME:
        pytest.skip("External ids contradict time in this input")
    table = kernel_launches(open_run(_trace(corpus, plugin_golden)))
    found = {_launch(row): row for row in table.iter_rows(named=True)}
    assert [wrong for row in expected for wrong in _launch_differs(plugin_golden, found, row)] == []


def _launch(row: Golden) -> Launch:
    """Identity of a row; the plugin writes 0 for registers and shared memory that the trace does not hold."""
    operator = row.get("operator", row.get("op"))
    registers = row.get("registers", row.get("registers_per_thread", row.get("regs")))
    numbers = (registers, row.get("shared_memory", row.get("smem")))
    return (
        row["name"],
        None if operator in NO_OPERATOR else operator,
        _plain(row["grid"]),
        _plain(row["block"]),
        *(_number(number) or 0 for number in numbers),
    )


def _launch_differs(trace: str, found: dict[Launch, Golden], expected: Golden) -> Iterable[object]:
    row = found[_launch(expected)]
    calls, grid = row["calls"], _plain(expected["grid"])
    if (trace, row["operator"], grid, calls) in ONE_KERNEL_ELSEWHERE:
        return
    if calls != expected["calls"]:
        yield trace, expected, calls
    for key in ("total", "mean", "max", "min"):
        near = 1 + (GRID * calls if key == "total" else 0)
        if key in expected and abs(row[key] / US - expected[key]) > near:
            yield expected["name"], key, expected[key], row[key]
    if row["total"]:  # the plugin's means are 0 where all durations are 0 us
        means = (("blocks_per_sm", "mean_blocks_per_sm", 1), ("occupancy", "mean_est_occupancy_pct", 100))
        for key, name, scale in (*means, ("blocks_per_sm", "bpsm", 1), ("occupancy", "occ", 100)):
            if name in expected and abs((row[key] or 0) * scale - expected[name]) > 0.02:
                yield expected["name"], key, expected[name], row[key]
    if "tc" in expected and row["tensor_cores"] != expected["tc"]:
        yield expected["name"], "tensor cores"


def test_the_plugins_use_of_tensor_cores(corpus: Path, plugin_golden: str) -> None:
    rows = _golden(corpus, plugin_golden, "ops_by_name", "operators")
    expected = [row for row in rows if "tc_eligible" in row or "tc_self_pct" in row]
    found = {row["name"]: row for row in operators(open_run(_trace(corpus, plugin_golden))).iter_rows(named=True)}
    for row in expected:
        own = found[row["name"]]
        for part in ("self", "total"):
            share = (own[f"tensor_core_{part}"] or 0) / (own[f"device_{part}"] or 1)
            percent = row[f"tc_{part}"] * 100 if "tc_eligible" in row else row[f"tc_{part}_pct"]
            assert share * 100 == pytest.approx(percent or 0, abs=0.011), row
        assert own["tensor_core_eligible"] == row.get("tc_eligible", own["tensor_core_eligible"]), row


# Traces in which views of other tools lose kernels: replayed graphs, compiled regions and Triton, kernels without a
# launch, and one with all launches through External ids that name nothing. The work on devices that is in no operator.
NOTHING_LOST = {
    "tracelens/sglang_decode/sglang_Qwen3-8B_decode": 0,
    "tracelens/vllm_decode_full/graph_execution": 0,
    "tracelens/torch_compile_triton/trace": 0,
    "tracelens/xdit_flux.1_aiter_sage/profile_trace_rank_0": 0,  # up to 1 566 kernels of one launch
    "hta/triton_example/triton_example": 0,
    "hta/sampled_2ranks/sampled_rank-0": 0,
    "tracelens/mi300/Qwen_Qwen1.5-0.5B-Chat__1016005": 463,  # the trace holds no call with their correlation ids
}


@pytest.mark.parametrize("name", sorted(NOTHING_LOST))
def test_every_kernel_is_in_every_view(corpus: Path, name: str) -> None:
    run = open_run(_trace(corpus, name))
    work = run.optional("device").filter(pl.col("kind").is_in(ON_DEVICE))
    below = operator_kernels(run).filter(pl.col("kind").is_in(ON_DEVICE))
    assert below["calls"].sum() == work.height
    assert below["total"].sum() == (work["end"] - work["start"]).sum()
    assert below.filter(pl.col("operator").is_null())["calls"].sum() == NOTHING_LOST[name]
    only_kernels = work.filter(pl.col("kind") == "kernel")
    for analysis in (kernels, kernel_launches):
        assert analysis(run)["calls"].sum() == only_kernels.height
        assert analysis(run)["total"].sum() == (only_kernels["end"] - only_kernels["start"]).sum()
        assert analysis(run)["share"].sum() == pytest.approx(1)


def test_one_launch_owns_all_the_kernels_that_it_replays(corpus: Path) -> None:
    table = operator_kernels(open_run(_trace(corpus, "tracelens/vllm_decode_full/graph_execution")))
    graph = table.filter(pl.col("name") == "hipGraphLaunch").select("calls", "started").rows()
    assert graph == [(1, 421)]
    assert table.filter(pl.col("launch") == "hipGraphLaunch")["calls"].sum() == 421


def test_triton_kernels_belong_to_the_operator_around_the_drivers_call(corpus: Path) -> None:
    table = operator_kernels(open_run(_trace(corpus, "hta/triton_example/triton_example")))
    (row,) = table.filter(pl.col("kind") == "kernel").iter_rows(named=True)
    assert (row["launch"], row["calls"]) == ("cuLaunchKernel", 1)
    assert row["operator"] is not None


def test_call_stacks_are_the_same_from_frames_and_as_written(corpus: Path) -> None:
    """The verbose recording of one program holds both; backward has the stacks of forward."""
    name = "local/cpu_mlp_verbose/n0_17764.1795174228023937861.pt.trace"
    run = open_run(_trace(corpus, name))
    by_frames = operators_by_stack(run)
    assert by_frames.filter(pl.col("name") == "AddmmBackward0")["backward"].all()
    assert by_frames["calls"].sum() == operators(run)["calls"].sum()
    without_frames = run.optional("host").filter(pl.col("kind") != "python")
    written = operators_by_stack(Run({**run.tables, "host": without_frames}))
    key = ("name", "file", "line", "backward")
    count = [table.group_by(key).agg(pl.col("calls").sum()).sort(key) for table in (by_frames, written)]
    assert count[0].rows() == count[1].rows()


def test_the_work_of_an_mtia_and_its_operators(corpus: Path) -> None:
    """The largest pair is that of HTA's own test; 25 814 events, 3 453 of which name a call."""
    table = operator_kernels(open_run(_trace(corpus, "hta/mtia_trace_single_rank/mtia_rank_0")))
    work = table.filter(pl.col("kind") == "accelerator")
    assert work["calls"].sum() == 25_814
    launched = work.filter(pl.col("launch").is_not_null())
    assert launched["calls"].sum() == table["started"].sum() == 3_453
    most = launched.sort("calls", descending=True).row(0, named=True)
    assert (most["operator"], most["name"], most["calls"]) == (
        "aten::mul", "customized_fba_mul_const-dtype_Float", 822
    )  # fmt: skip


@pytest.mark.parametrize("name", ALL)
def test_htas_kernels_by_name(corpus: Path, name: str) -> None:
    """Counts, sums, maxima and minima of the largest kernels and copies, in the part of the trace that HTA keeps."""
    run = as_hta_keeps_it(open_run(trace_of(corpus, name)))
    below = operator_kernels(run).filter(pl.col("kind").is_in(ON_DEVICE))
    sums = below.group_by("rank", "name").agg(pl.col("calls", "total").sum())
    extremes = kernels(run).group_by("rank", "name").agg(pl.col("max").max(), pl.col("min").min())
    rows = sums.join(extremes, on=("rank", "name"), how="left")
    lone = rows["rank"][0] if rows["rank"].n_unique() == 1 else None  # HTA calls a lone rank 0
    found = {(row["rank"], row["name"]): row for row in rows.iter_rows(named=True)}
    for expected in golden_of(corpus, name)["gpu_time_by_kernel_name"]:
        row = found[expected["rank"] if lone is None else lone, expected["name"]]
        assert row["calls"] == expected["count"]
        assert row["total"] / US == pytest.approx(expected["sum_us"], abs=1)
        for key in ("max", "min"):
            if row[key] is not None and f"{key}_us" in expected:
                assert row[key] / US == pytest.approx(expected[f"{key}_us"], abs=1)


IN_16_BITS = (
    "tracelens/h100/Falconsai_nsfw_image_detection__1016002",
    "tracelens/h100/facebook_timesformer-base-finetuned-k400__1016002",
    "tracelens/h100/gaunernst_bert-small-uncased__1016001",
    "tracelens/mi300/Falconsai_nsfw_image_detection__1016002",
    "tracelens/mi300/Qwen_Qwen1.5-0.5B-Chat__1016005",
    "tracelens/mi300/gaunernst_bert-small-uncased__1016001",
    "tracelens/torch_compile_triton/trace",
    "tracelens/vllm_decode_full/graph_execution",
    "tracelens/xdit_flux.1_aiter_sage/profile_trace_rank_0",
)


@pytest.mark.parametrize("name", IN_16_BITS)
def test_matrix_products_in_16_bits_use_the_cores(corpus: Path, name: str) -> None:
    """On these devices every product does; what is left are kernels beside it, such as copies and matrix by vector."""
    table = operators_by_shape(open_run(_trace(corpus, name)))
    products = pl.col("name").is_in(["aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm"])
    table = table.filter(products & pl.col("input_types").str.contains("BFloat16|Half"))
    assert table["tensor_core_eligible"].all()
    whole, on_cores = table.select(pl.col("device_self", "tensor_core_self").sum()).row(0)
    assert whole > 0
    assert on_cores / whole > 0.98
