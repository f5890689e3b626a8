"""Attention is computed by single operators, and its scores go through memory.

## What it finds
Two batched matrix products with a softmax between them, and no matrix product, convolution or normalization besides.
What runs between the products, such as scaling, mask, softmax and dropout, takes more than 5 % of the step; in the
backward pass as well (catalogue: D10, D11). A GPU must be busy for 80 % of the step or more. Without a GPU the
operators' own time counts. `scaled_dot_product_attention` that falls back to single operators is found, too: on a CPU
it does with dropout, the default of many models of Transformers.

## Why it costs time
The scores are a matrix of length times length for each head. Each operator reads all of it from memory and writes it
back. A fused kernel keeps tiles of it on the chip.

## What to do
`torch.nn.functional.scaled_dot_product_attention`, with half precision, a head of at most 256 and `is_causal=True`
instead of a mask where possible. In Transformers: `attn_implementation="sdpa"`. On a CPU: attention without dropout.

## How the gain is predicted
0.8 to 1.6 times the time between the products, since the fused kernel makes the products faster, too. Measured on a
CPU: 1.45 to 1.53 times; 1.5 times for a small GPT-2 whose attention had dropout.

## When it is wrong
Code that returns the attention weights needs them in memory. Short sequences gain little.
"""

import json
import math
from collections.abc import Iterator

import polars as pl

from stepscope.analyses.host.lib.model_places import model_places
from stepscope.analyses.lib.host_events import host_tree
from stepscope.analyses.lib.launch_lines import launch_lines, launch_places
from stepscope.analyses.lib.sample_work import has_gpu
from stepscope.core.finding import Advice, Evidence, Finding, Place, Rule, Title
from stepscope.core.run import Run, chain, stack
from stepscope.core.synth import Synth
from stepscope.rules.operators.lib.attention import attention_chains, attention_operators
from stepscope.rules.operators.lib.work_or_operators import OperatorCost, costly, operator_costs

__all__ = ["RULE"]

MIN_SHARE = 0.05  # of the step: half of it, the low end of the gain, is above the noise between two runs
SAVED = (0.8, 1.6)  # of the time between the products: the fused kernel makes these faster; measured 1.45 to 1.53
_BYTES = {"float": 4, "double": 8}  # of an element of the scores; others have two


def check(run: Run) -> Iterator[Finding]:
    slow = costly(run.per_rank(_costs, chain), MIN_SHARE)
    if not slow:
        return
    worst = slow[0]
    sizes: tuple[int, ...] = run.per_rank(_scores, chain)
    size = max(sizes, default=0)
    falls_back = worst.rank in run.per_rank(_falling_back, chain)
    yield Finding(
        title=Title(_FALLBACK if falls_back else _SINGLE, worst.takes),
        cause="operator",
        evidence=(
            worst.evidence("softmax, mask, dropout, scaling"),
            *((Evidence(label="largest score matrix", value=size, unit="bytes", source="operators"),) if size else ()),
        ),
        gain=worst.gain(SAVED, "time between the two matrix products, which get faster, too", "structural"),
        advice=_ADVICE if not falls_back else _FUSABLE if has_gpu(run) else _NO_DROPOUT,
        ranks=tuple(sorted(one.rank for one in slow)),
        where=_places(run, worst),
    )


def _costs(run: Run) -> tuple[OperatorCost, ...]:
    marked, softmax = attention_operators(run)
    return operator_costs(run, marked) if len(softmax) else ()


def _falling_back(run: Run) -> tuple[int, ...]:
    """The ranks whose `scaled_dot_product_attention` runs as single operators, on a CPU because of dropout."""
    tree, (marked, _) = host_tree(run), attention_operators(run)
    named = tree.passing(pl.col("name") == "aten::_scaled_dot_product_attention_math")
    drops = tree.passing(pl.col("name").str.contains("dropout|bernoulli_")) & marked
    return tuple(tree.frame["rank"].filter(named).unique()) if has_gpu(run) or drops.any() else ()


def _places(run: Run, worst: OperatorCost) -> tuple[Place, ...]:
    if not has_gpu(run):
        return model_places(run, worst.rank, r"softmax\(|bmm\(|matmul\(|\w @ ")
    return launch_places(run.per_rank(_lines, stack, only=worst.rank), worst.rank, worst.share)


def _lines(run: Run) -> pl.DataFrame:
    return launch_lines(run, attention_chains(run).work)


def _scores(run: Run) -> tuple[int, ...]:
    """Bytes of the scores of each softmax whose shape was recorded."""
    _, softmax = attention_operators(run)
    shapes = run.optional("host", "input_dims", "input_types")[host_tree(run).frame["host_row"].gather(softmax)]
    known = shapes.drop_nulls().unique()
    return tuple(_size(*row) for row in known.iter_rows())


def _size(dims: str, types: str) -> int:
    try:
        first, kind = json.loads(dims)[0], json.loads(types)[0]
        return int(math.prod(first)) * _BYTES.get(kind, 2)
    except (ValueError, IndexError, TypeError):
        return 0  # shapes in another form tell nothing


_SINGLE = "Attention in single operators, not one fused kernel, takes {} per step ({})"
_FALLBACK = "scaled_dot_product_attention runs as single operators: {} per step ({})"
_NO_DROPOUT = (
    Advice(
        text="Leave dropout out of attention: with it the CPU has no fused kernel",
        code="x = torch.nn.functional.scaled_dot_product_attention(query, key, value, dropout_p=0.0)",
    ),
    Advice(text="In Transformers, in the model's config", code="config.attn_pdrop = 0.0  # or attention_dropout"),
)
_FUSABLE = (
    Advice(
        text="Give it what a fused kernel takes: half precision, a head of at most 256, is_causal instead of a mask",
        code='with torch.autocast("cuda", torch.bfloat16):\n    x = attention(query, key, value, is_causal=True)',
    ),
)
_ADVICE = (
    Advice(
        text="Compute attention in one operator",
        code="x = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)",
    ),
    Advice(
        text="In Transformers, choose it for the model",
        code='model = AutoModel.from_pretrained(name, attn_implementation="sdpa")',
    ),
)


def example(synth: Synth, fixed: bool) -> None:
    scores = 0 if fixed else 20
    length = 80 + scores
    for step in range(4):
        start = step * length
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + length)
        synth.host("aten::addmm", "operator", start, start + 40)
        if fixed:
            name = "aten::_scaled_dot_product_flash_attention_for_cpu"
            synth.host(name, "operator", start + 40, start + 60)
        else:
            synth.host("aten::bmm", "operator", start + 40, start + 50)
            synth.host("aten::mul", "operator", start + 50, start + 55)
            synth.host("aten::_softmax", "operator", start + 55, start + 70)
            synth.host("aten::bmm", "operator", start + 70, start + 80)
        synth.host("aten::addmm", "operator", start + 60 + scores, start + length)


RULE = Rule(check=check, example=example)
