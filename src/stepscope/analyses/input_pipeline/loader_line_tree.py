"""The call tree of DataLoader workers by the lines of your code, from stack samples taken in the workers.

A row is a node of the tree of a loader on a rank. Node 0 is all of its workers together. Below it are the lines of the
user's own code that load batches, as they called each other. Then come the library frame that the innermost line called
and the innermost frame of all, as in `line_tree`. `total` is the sum of the samples over all workers; each stands for
the time since the one before. The root's total is the sum of `wall` in `loader_lines`. `calls` counts samples.
"""

import polars as pl

from stepscope.analyses.lib.call_trees import LEADING as TREE_LEADING
from stepscope.analyses.lib.call_trees import NODE, Label, SampledTree, paths_of, tree_frame
from stepscope.analyses.lib.result_tables import RANK, shaped
from stepscope.core.errors import MissingData
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

__all__ = ["ANALYSIS", "loader_line_tree"]

COLUMNS = (RANK, Column("loader", pl.Int64, None, "number of the DataLoader; null: unknown"), *NODE)


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank, loader and node. Raises MissingData where no line of a worker was sampled."""
    samples = run.optional("worker_stacks")
    if samples.is_empty():
        raise MissingData(
            "lines in DataLoader workers", how="record them: `stepscope run --loader-lines 50 -- COMMAND`"
        )
    trees = []
    ordered = samples.sort("rank", "loader", "pid", "time", nulls_last=True)
    for part in ordered.partition_by("rank", "loader", maintain_order=True):
        rank, loader = part.select("rank", "loader").row(0)
        grown = SampledTree(Label("workers" if loader is None else f"workers of loader {loader}", "root"))
        stacks, texts = paths_of(part, None)
        for path, weight, count in stacks:
            grown.add(path, weight, count)
        tree, labels = grown.tree()
        trees.append(tree_frame(tree, labels, texts, rank=rank, loader=loader))
    return shaped(pl.concat(trees, how="vertical_relaxed"), COLUMNS)


LEADING = TREE_LEADING
ANALYSIS = loader_line_tree = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
