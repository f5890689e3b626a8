"""The call tree of a steady step by the lines of your code, from stack samples of the running job.

A row is a node of the tree of a rank. Node 0 is the step, and below it are the phases. Then come the lines of the
user's own code as they called each other, outermost first. Last come the library frame that the innermost line called
and the innermost frame of all. Frames of libraries between these two, and between frames of the user, are not recorded.
`total` is the sampled share of the rank's steady steps times their mean duration, as in `lines`. Nodes add up exactly:
`self` and the totals of the nodes below one are its total, and the root is the mean step. `calls` counts samples.
"""

import polars as pl

from stepscope.analyses.lib.call_trees import LEADING as TREE_LEADING
from stepscope.analyses.lib.call_trees import NODE, Label, SampledTree, paths_of, tree_frame
from stepscope.analyses.lib.result_tables import RANK, parts, shaped
from stepscope.analyses.lib.trace_phases import PHASES
from stepscope.analyses.steps.lib.samples import steady_samples
from stepscope.analyses.steps.steady_steps import steady_steps
from stepscope.core.run import Analysis, Run

__all__ = ["ANALYSIS", "line_tree"]

COLUMNS = (RANK, *NODE)
_NAMES = {"data_wait": "data wait"}  # as people read it


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank and node. Raises MissingData without samples of steady steps."""
    mean = dict(steady_steps(run).group_by("rank").agg(pl.col("duration").mean()).iter_rows())
    trees = []
    for samples in parts(steady_samples(run).sort("rank", maintain_order=True), "rank"):
        rank = samples["rank"][0]
        grown = SampledTree(Label("step", "root"))
        stacks, texts = paths_of(samples.with_columns(pl.col("phase").replace(_NAMES)), "phase")
        for path, weight, count in stacks:
            grown.add(path, weight, count)
        tree, labels = grown.tree(round(mean[rank]), [_NAMES.get(phase, phase) for phase in PHASES])
        trees.append(tree_frame(tree, labels, texts, rank=rank))
    return shaped(pl.concat(trees), COLUMNS)


LEADING = TREE_LEADING
ANALYSIS = line_tree = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
