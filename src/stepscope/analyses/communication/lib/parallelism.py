"""What a process group divides the work by: data, tensors, stages, experts.

Frameworks say it when they make a group, in its description: a mesh dimension of torch (`mesh_dp_shard`), a constant of
Megatron (`TENSOR_MODEL_PARALLEL_GROUP`). Sources: torch/distributed/device_mesh.py, torchtitan's ParallelDims,
Megatron-LM's parallel_state.py, vLLM's and SGLang's parallel_state.py.
"""

import re

import polars as pl

from stepscope.analyses.communication.lib.collective_names import POINT_TO_POINT

__all__ = ["parallel_kind", "with_parallel"]

_WORDS = {
    **dict.fromkeys(("data", "dp", "ddp", "fsdp", "hsdp", "edp", "replicate", "shard"), "data"),
    **dict.fromkeys(("tensor", "tp", "etp"), "tensor"),
    **dict.fromkeys(("pipeline", "pipe", "pp", "embedding"), "pipeline"),  # embeddings: first with last stage
    **dict.fromkeys(("expert", "ep"), "expert"),
    **dict.fromkeys(("context", "cp"), "context"),
    **dict.fromkeys(("sequence", "sp", "ulysses"), "sequence"),
}
_ORDER = ("tensor", "pipeline", "expert", "context", "sequence", "data")
_WORLD = ("default_pg", "mesh_default", "mesh_world", "world")
_DESCRIBED, _BY_PATTERN = "description", "pattern"


def parallel_kind(description: str) -> str | None:
    """`data`, `tensor`, `tensor and data`, …, `world` for the group of all ranks; None where the text does not say."""
    text = description.lower()
    if text in _WORLD:
        return "world"
    words = re.split(r"[^a-z]+", text)
    kinds = {_WORDS[word] for word in words if word in _WORDS}
    if "expert" in kinds and kinds & {"data", "tensor"}:
        kinds.discard("expert")  # EXPERT_DATA_PARALLEL_GROUP: the replicas of an expert
    if {"data", "context"} <= kinds:
        kinds.discard("context")  # DATA_PARALLEL_GROUP_WITH_CP: gradients over both
    if not kinds and {"model", "parallel"} <= set(words):
        kinds = {"tensor", "pipeline"}  # Megatron's MODEL_PARALLEL_GROUP
    return " and ".join(kind for kind in _ORDER if kind in kinds) or None


def with_parallel(rows: pl.DataFrame) -> pl.DataFrame:
    """Add `parallel` and `parallel_by` to rows of rank, group, description, collective and group_size.

    By pattern: a group in which all that torch names is point-to-point passes a pipeline's activations on. A single
    kernel SendRecv may be an all-to-all, so it tells nothing.
    """
    told = pl.Series([parallel_kind(text) if text else None for text in rows["description"]], dtype=pl.String)
    sends = pl.col("collective").is_in([kind for kind in POINT_TO_POINT if kind != "send_recv"])
    passes_on = sends.any() & (sends | (pl.col("collective") == "send_recv")).all()
    pattern = pl.when(passes_on.over("rank", "group") & pl.col("group").is_not_null()).then(pl.lit("pipeline"))
    known = rows.with_columns(told=told)
    by = (
        pl.when(pl.col("told").is_not_null())
        .then(pl.lit(_DESCRIBED))
        .when(pattern.is_not_null())
        .then(pl.lit(_BY_PATTERN))
    )
    return known.with_columns(parallel=pl.coalesce("told", pattern), parallel_by=by).drop("told")
