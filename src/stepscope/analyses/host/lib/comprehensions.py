"""A comprehension is part of the function that it stands in.

Up to Python 3.11 each is a frame of its own, `<listcomp>`, so that samples of one function would count as of two.
"""

import polars as pl

__all__ = ["with_comprehensions"]

_NAMES = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<lambda>")
NEAR = 1  # lines beside those where samples met the function: a comprehension is often its last statement


def with_comprehensions(samples: pl.DataFrame) -> pl.DataFrame:
    """Samples whose `function` is the enclosing one where samples met that, too, around or beside the same lines."""
    inner = pl.col("function").is_in(_NAMES)
    if not samples.select(inner.any()).item():
        return samples
    functions = samples.filter(~inner).group_by("file", pl.col("function").alias("outer"))
    spans = functions.agg(pl.col("line").min().alias("first"), pl.col("line").max().alias("last"))
    places = samples.filter(inner).select("file", "line").unique().join(spans, on="file")
    around = places.filter(pl.col("line").is_between(pl.col("first") - NEAR, pl.col("last") + NEAR))
    innermost = around.sort("first", descending=True).unique(["file", "line"], keep="first")
    found = innermost.select("file", "line", "outer")
    named = samples.join(found, on=["file", "line"], how="left", maintain_order="left")
    chosen = pl.when(inner).then(pl.coalesce("outer", "function")).otherwise("function")
    return named.with_columns(chosen.alias("function")).drop("outer")
