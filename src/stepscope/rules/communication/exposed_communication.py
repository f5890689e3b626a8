"""Collectives run while nothing computes.

## What it finds
Devices that spend more than 10 % of the step in communication kernels while no other kernel computes. Such kernels are
those of NCCL, RCCL, DeepEP or a custom all-reduce. It names the collective and process group with most of that time. In
a job on the CPU: steps in which gloo communicates for more than 10 % while no operator computes.

## Why it costs time
A collective that overlaps with computing is free; an exposed one makes the device wait for the network, or for the
slowest rank.

## What to do
That follows from the collective. An all-reduce of gradients should travel while backward goes on:
DistributedDataParallel with large buckets, gradients accumulated under `no_sync()`. All-gather and reduce-scatter are
FSDP's: prefetch, and keep the parameters gathered where memory allows. All-to-all and DeepEP's dispatch and combine are
those of a mixture of experts or of sharded embeddings: compute something else meanwhile, and balance the experts. Send
and receive are a pipeline's: more micro-batches. Where there is too little computing per communication to hide it, only
less communication helps: a larger batch per rank, fewer ranks per group, compression.

## How the gain is predicted
High end: all exposed communication, but no more than the busiest rank can save. The step cannot become shorter than the
longest time that any rank needs without communication. Low end: half of it, because nothing hides the last bucket.

## When it is wrong
The time of a collective includes waiting for the last rank to arrive. Where one rank is late in most collectives, that
part is left to the rule `straggler`; where the ranks take turns, no overlap helps with it either.
"""

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from stepscope.analyses.bound.lib.exposed_time import Exposed, exposed_communication
from stepscope.analyses.communication.lib.collective_calls import collective_calls
from stepscope.analyses.communication.lib.communicating_lines import communicating_lines, micro_batches
from stepscope.analyses.communication.process_groups import process_groups
from stepscope.analyses.host.lib.model_places import model_places
from stepscope.analyses.lib.launch_lines import launch_places
from stepscope.analyses.lib.training_or_inference import inferring_ranks
from stepscope.analyses.operators.operators import operators
from stepscope.core.errors import MissingData
from stepscope.core.finding import Advice, Evidence, Finding, Gain, Rule, Title, Value
from stepscope.core.run import Run, chain, stack
from stepscope.core.synth import Synth
from stepscope.models.limiting_rank import limiting_rank

__all__ = ["RULE"]

MIN_SHARE = 0.10  # of the step: torch_tb_profiler's limit for communication
BUCKET = 25 * 2**20 // 4  # elements of 4 bytes in a bucket of DistributedDataParallel, unless it is told another
MOSTLY = 0.5  # of the exposed time
ALONE = 0.99  # of the exposed time: other collectives with less do not change the figure


def check(run: Run) -> Iterator[Finding]:
    run.per_rank(micro_batches, stack)  # of each rank while it is open, whichever the finding is about
    rows = {row.rank: row for row in exposed_communication(run)}
    slow = [rank for rank, row in rows.items() if row.removable > MIN_SHARE * row.step]
    if not slow:
        return
    told = limiting_rank(run)
    worst = rows[max(slow, key=lambda rank: (rank == told, rows[rank].told / rows[rank].step))]
    most = _most_exposed(run, worst.rank)
    collective = str(most["collective"] or "") if most else ""
    group = str(most["parallel"] or "") if most else ""
    yield Finding(
        title=_title(collective, group, worst, most),
        cause="configuration",
        evidence=tuple(_evidence(worst, most)),
        gain=Gain(
            low_ns=int(worst.removable / 2),
            high_ns=int(worst.removable),
            step_ns=int(worst.step),
            basis="exposed communication, with waits for other ranks",
            confidence="structural",
            pool="communication",
        ),
        advice=_advice(run, worst.rank, collective, group, too_much=worst.removable > worst.compute),
        ranks=tuple(slow),
        where=launch_places(
            run.per_rank(communicating_lines, stack, only=worst.rank), worst.rank, worst.told / worst.step
        )
        or model_places(run, worst.rank),
    )


def _most_exposed(run: Run, rank: int) -> dict[str, str | int | None] | None:
    """The row of `process_groups` with the most exposed time of a rank; where that is not known, the longest."""
    try:
        rows = process_groups(run).filter((pl.col("rank") == rank) & (pl.col("exposed") > 0).fill_null(True))
    except MissingData:
        return None
    rows = rows.sort("exposed", "duration", descending=True, nulls_last=True, maintain_order=True)
    if rows.is_empty():
        return None
    most = rows.row(0, named=True)
    alone = mostly = rows["collective"].n_unique() == 1
    if most["exposed"] is not None:
        share = most["exposed"] / float(rows["exposed"].sum())
        alone, mostly = share >= ALONE, share >= MOSTLY
    return {**most, "alone": alone, "mostly": mostly}


def _title(collective: str, group: str, row: Exposed, most: dict[str, str | int | None] | None) -> Title:
    """The collective alone, unless others have a part in the time."""
    figures = (Value(row.told, "ns"), Value(row.told / row.step, "ratio"))
    if not collective:
        return Title("Communication is exposed {} per step ({})", figures)
    who = collective + (f" of {group} parallelism" if group not in ("", "world") else "")
    if most and not most["alone"]:
        if most["mostly"]:
            return Title("Communication, mostly {}, is exposed {} per step ({})", (who, *figures))
        return Title("Communication (longest: {}) is exposed {} per step ({})", (who, *figures))
    return Title("{} is exposed {} per step ({})", (who, *figures))


def _evidence(row: Exposed, most: dict[str, str | int | None] | None) -> Iterator[Evidence]:
    yield Evidence(
        label="exposed communication per step", value=row.told, unit="ns", source=row.source, share=row.told / row.step
    )
    if most is not None and most["collective"] and most["exposed"] is not None:
        share = float(most["exposed"]) / row.steps
        label = f"exposed {most['collective']} per step"
        yield Evidence(label=label, value=share, unit="ns", source="process_groups")
    yield Evidence(label="compute share of step", value=row.compute / row.step, unit="ratio", source=row.source)


def _advice(run: Run, rank: int, collective: str, group: str, *, too_much: bool) -> tuple[Advice, ...]:
    splits = "tensor" in group or (collective == "all_reduce" and rank in inferring_ranks(run))
    key = "tensor" if splits else _KINDS.get(collective, "other")
    if key == "experts" and _embeds(run, rank):
        key = "embeddings"
    if key == "other" and rank in run.per_rank(_sharding, chain, only=rank):
        key = "sharded"  # its gradients: gloo reduces and scatters by all_reduce
    less = replace(_LESS, code="") if key != "other" else _LESS  # the hook is DistributedDataParallel's
    buckets = (_BUCKETS,) if key == "other" and not _one_call(run, rank) else ()
    fewer = (_ONCE,) if key == "other" and not _sends_once(run, rank) else ()
    return (*buckets, *_ADVICE[key], *fewer, *((less,) if too_much else ()))


def _one_call(run: Run, rank: int) -> bool:
    """Whether each step sends its gradients in one call, or so little that one bucket holds it by default."""
    own = (pl.col("rank") == rank) & (pl.col("collective") == "all_reduce")
    sent = collective_calls(run).filter(own).drop_nulls("step").group_by("step")
    elements = pl.col("in_elements")
    steps = sent.agg(calls=pl.len(), elements=elements.sum(), unknown=elements.is_null().any())
    few = (steps["calls"] == 1) | (~steps["unknown"] & (steps["elements"] <= BUCKET))
    return len(steps) > 0 and bool(few.all())


def _sends_once(run: Run, rank: int) -> bool:
    """Whether a step is known to send gradients after one backward only: it has no other, or `no_sync` is used."""
    own = pl.col("rank") == rank
    if run.optional("steps", "rank", "micro_batches").filter(own)["micro_batches"].max() == 1:
        return True
    forwards = run.per_rank(micro_batches, stack).filter(own)["start"].sort()
    sent = collective_calls(run).filter(own & (pl.col("collective") == "all_reduce"))["start"].sort()
    if forwards.is_empty() or sent.is_empty():
        return False
    return forwards.search_sorted(sent, side="right").n_unique() <= len(forwards) / 2


def _embeds(run: Run, rank: int) -> bool:
    """Whether it looks up sharded embedding tables: then all-to-all is theirs, not that of experts."""
    try:
        names = operators(run).filter(pl.col("rank") == rank)["name"]
    except MissingData:
        return False
    return bool(names.str.contains(_LOOKUP).any())


def _sharding(run: Run) -> tuple[int, ...]:
    """The ranks whose parameters FSDP holds."""
    calls = run.optional("host", "rank", "name").filter(pl.col("name").str.contains(_SHARDS))
    return tuple(calls["rank"].unique().sort())


_SHARDS = r"^FSDP::|^FullyShardedDataParallel"  # FSDP2, FSDP1
_LOOKUP = "split_embedding|SplitLookup"  # FBGEMM's operators, which TorchRec calls
_KINDS = {
    **dict.fromkeys(("all_gather", "reduce_scatter"), "sharded"),
    **dict.fromkeys(("all_to_all", "all_to_allv", "dispatch", "combine"), "experts"),
    **dict.fromkeys(("send", "recv", "send_recv"), "pipeline"),
    "broadcast": "broadcast",
    "barrier": "barrier",
}
_BUCKETS = Advice(
    text="Send gradients in large buckets while backward goes on",
    code="model = DistributedDataParallel(model, bucket_cap_mb=100, gradient_as_bucket_view=True)",
)
_ONCE = Advice(
    text="When accumulating gradients, communicate once per step",
    code="with model.no_sync():  # all micro-batches but the last\n    loss.backward()",
)
_LESS = Advice(
    text="Communicate less, as compute is too short to hide it: larger batches, smaller groups, or compression",
    code="from torch.distributed.algorithms.ddp_comm_hooks import default_hooks\n"
    "model.register_comm_hook(None, default_hooks.bf16_compress_hook)",
)
_ADVICE = {
    "other": (Advice(text="Increase the batch size per rank: more compute per collective"),),
    "sharded": (
        Advice(
            text="Prefetch the next layers' parameters (FSDP2; FSDP1: forward_prefetch=True)",
            code="layer.set_modules_to_forward_prefetch([next_layer])\n"
            "layer.set_modules_to_backward_prefetch([previous_layer])",
        ),
        Advice(
            text="Where memory allows, keep parameters gathered from forward to backward, or shard within a machine",
            code="fully_shard(layer, mesh=mesh, reshard_after_forward=False)",
        ),
    ),
    "experts": (
        Advice(
            text="Overlap all-to-all with local work: shared experts, or half of the batch",
            code="work = dist.all_to_all_single(received, tokens, async_op=True)\n"
            "shared = shared_expert(x)\nwork.wait()",
        ),
        Advice(text="Balance the experts: the fullest rank sets the pace"),
    ),
    "embeddings": (
        Advice(
            text="Overlap the exchange of embeddings with the dense layers",
            code="pooled = sparse_arch(features)  # TorchRec: starts the exchange\n"
            "dense = dense_arch(inputs)  # meanwhile\nembeddings = pooled.wait()",
        ),
        Advice(text="Balance the embedding tables: the fullest rank sets the pace"),
    ),
    "pipeline": (
        Advice(
            text="Use more, smaller micro-batches and several stages per rank",
            code="schedule = ScheduleInterleaved1F1B(stages, n_microbatches=4 * pipeline_ranks)",
        ),
    ),
    "broadcast": (
        Advice(
            text="Set broadcast_buffers=False, if ranks need not agree on buffers",
            code="model = DistributedDataParallel(model, broadcast_buffers=False)",
        ),
    ),
    "barrier": (
        Advice(
            text="Remove barriers from the step: collectives already order the ranks",
            code="dist.barrier()  # once before training, not in each step",
        ),
    ),
    "tensor": (
        Advice(
            text="Keep the tensor-parallel group small and within one machine",
            code='mesh = init_device_mesh("cuda", (ranks // 8, 8), mesh_dim_names=("dp", "tp"))',
        ),
        Advice(
            text="Overlap its collectives with the matrix products around them",
            code="torch._inductor.config._micro_pipeline_tp = True  # with torch.compile and symmetric memory",
        ),
    ),
}


def example(synth: Synth, fixed: bool) -> None:
    length = 80 if fixed else 100
    for step in range(4):
        start = step * length
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + length)
        synth.kernel(start, start + 70)
        synth.kernel(start + length - 30, start + length - 10, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", stream="9")
        synth.kernel(start + length - 10, start + length)


RULE = Rule(check=check, example=example)
