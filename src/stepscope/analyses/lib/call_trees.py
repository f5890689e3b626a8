"""Trees of calls as tables, and those that stack samples form."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

import numpy as np
import polars as pl

from stepscope.analyses.lib.library_code import is_library
from stepscope.core.call_tree import CallTree, apportioned, call_tree, subtree_sums
from stepscope.core.schema import Column

__all__ = [
    "LEADING",
    "NODE",
    "Label",
    "Path",
    "SampledTree",
    "in_code",
    "paths_by_row",
    "paths_of",
    "profiled",
    "tree_frame",
]

NODE = (
    Column("node", pl.Int64, None, "number of the node in its tree, those it called behind it; 0: the root"),
    Column("parent", pl.Int64, None, "node that called it; null: the root"),
    Column("depth", pl.Int64, None, "nodes around it"),
    Column("name", pl.String, None, "what was called: function and line, operator, phase, …"),
    Column("kind", pl.String, None, "root, phase, user, library, module, operator, annotation, call or unknown"),
    Column("file", pl.String, None, "file of a frame of Python"),
    Column("line", pl.Int64, None, "its line"),
    Column("text", pl.String, None, "source line, where it was recorded"),
    Column("calls", pl.Int64, "count", "samples in which it was, or calls"),
    Column("total", pl.Int64, "ns", "time with all that it called: self and the totals of the nodes below it"),
    Column("self", pl.Int64, "ns", "time of its own"),
    Column("share", pl.Float64, "ratio", "total / total of the root"),
)
"""What a table of call trees says of each node."""

LEADING = ("name", "total", "self", "share", "kind", "calls", "depth", "node", "parent")

_SAMPLED = re.compile(r"(?P<file>.*):(?P<line>-?\d{1,9}) (?P<function>.*)", re.DOTALL)
_PROFILED = re.compile(r"(?P<file>.+?)\((?P<line>\d{1,9})\): (?P<function>.+)", re.DOTALL)
_MODULE = "nn.Module: "

Path = tuple["Label", ...]


@dataclass(frozen=True, slots=True, order=True)
class Label:
    """What a node is of; line 0: unknown."""

    name: str
    kind: str
    file: str = ""
    line: int = 0


def in_code(file: str, line: int, function: str, kind: str) -> Label:
    """A frame of Python, named by function and place, since the end of a long name is seldom seen."""
    return Label(f"{function} {PurePosixPath(file.replace(chr(92), '/')).name}:{line}", kind, file, max(line, 0))


def profiled(name: str) -> Label:
    """A Python frame as torch.profiler names it: code, a module, or a function that is built in."""
    if name.startswith(_MODULE):
        return Label(name.removeprefix(_MODULE), "module")
    match = _PROFILED.fullmatch(name)
    if not match:
        return Label(name, "library")
    kind = "library" if is_library(match["file"]) else "user"
    return in_code(match["file"], int(match["line"]), match["function"], kind)


def sampled(frame: str, kind: str) -> Label:
    """A frame as the sampler of lines describes it."""
    match = _SAMPLED.fullmatch(frame)
    if not match:
        return Label(frame, kind)
    if match["file"] == match["function"]:
        return Label(match["file"], "unknown")  # stacks beyond the number that is kept apart
    of_library = not match["file"].startswith("/") and is_library(match["file"])  # where the user has none in there
    return in_code(match["file"], int(match["line"]), match["function"], "library" if of_library else kind)


@dataclass(slots=True)
class SampledTree:
    """A tree that grows by stacks."""

    root: Label
    labels: list[Label] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    own: list[int] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)
    _nodes: dict[tuple[int, Label], int] = field(default_factory=dict)

    def add(self, path: Iterable[Label], weight: int, samples: int) -> None:
        """Samples of one stack, outermost first, which stand for `weight` ns."""
        node = self._node(-1, self.root)
        self.calls[node] += samples
        for label in path:
            node = self._node(node, label)
            self.calls[node] += samples
        self.own[node] += weight

    def _node(self, parent: int, label: Label) -> int:
        found = self._nodes.get((parent, label))
        if found is None:
            found = self._nodes[parent, label] = len(self.labels)
            self.labels.append(label)
            self.parents.append(parent)
            self.own.append(0)
            self.calls.append(0)
        return found

    def tree(self, whole: int | None = None, first: Sequence[str] = ()) -> tuple[CallTree, list[Label]]:
        """The tree, with times in proportion that add up to `whole` where given; names in `first` come first."""
        kinds = {label: number for number, label in enumerate(sorted(set(self.labels)))}
        rank = [first.index(label.name) if label.name in first else len(first) for label in self.labels]
        tree = call_tree(
            label=np.array([kinds[label] for label in self.labels], dtype=np.int64),
            parent=np.array(self.parents, dtype=np.int64),
            own=np.array(self.own, dtype=np.int64),
            calls=np.array(self.calls, dtype=np.int64),
            rank=np.array(rank, dtype=np.int64),
        )
        return (tree if whole is None else scaled(tree, whole)), list(kinds)


def scaled(tree: CallTree, whole: int) -> CallTree:
    """The tree with times in proportion that add up to `whole`, its nodes in the order they had."""
    own = apportioned(tree.own, whole)
    return replace(tree, own=own, total=subtree_sums(tree.parent, own))


def paths_of(samples: pl.DataFrame, key: str | None) -> tuple[list[tuple[Path, int, int]], dict[Label, str]]:
    """The distinct stacks of samples with their weight in ns and number, as in `paths_by_row`; and source lines."""
    paths, number, texts = paths_by_row(samples, key)
    sums = pl.DataFrame({"stack": number, "weight": samples["weight"]}).group_by("stack").agg(
        pl.col("weight").sum(), pl.len()
    ).sort("stack")  # fmt: skip
    return [(paths[stack], weight, count) for stack, weight, count in sums.iter_rows()], texts


def paths_by_row(samples: pl.DataFrame, key: str | None) -> tuple[list[Path], pl.Series, dict[Label, str]]:
    """The distinct stacks of samples, for each row the place of its own, and the source lines that are known.

    A stack is, below the value of column `key` where given, the frames of the user's code, the library frame below
    them, and the innermost one: what lies between these two, and libraries between frames of the user, are not
    recorded.
    """
    whole = samples.with_columns(pl.col("frames", "texts").list.join("\0", ignore_nulls=False).fill_null(""))
    if "collector" not in whole.columns:
        whole = whole.with_columns(collector=pl.lit(False))
    names = [key] if key else []
    columns = [*names, "collector", "frames", "texts", "call", "leaf", "file", "line", "function", "text"]
    distinct = whole.select(columns).unique(maintain_order=True).with_row_index("stack")
    rows = whole.select(columns).join(distinct, on=columns, how="left", nulls_equal=True, maintain_order="left")
    texts: dict[Label, str] = {}
    paths = []
    for row in distinct.iter_rows(named=True):
        above = (Label(row[key], key),) if key else ()
        paths.append((*above, *_path(row, texts)))
    return paths, rows["stack"], texts


def _path(row: dict[str, object], texts: dict[Label, str]) -> Path:
    frames = [frame for frame in str(row["frames"]).split("\0") if frame]
    if not frames and row["file"] is not None:
        frames = [f"{row['file']}:{row['line'] or 0} {row['function'] or ''}"]
    path = [sampled(frame, "user") for frame in frames]
    lines = str(row["texts"]).split("\0")
    if len(lines) == len(path):
        texts.update((label, line) for label, line in zip(path, lines, strict=True) if line)
    if path and row["text"]:
        texts[path[-1]] = str(row["text"])
    for name in ("call", "leaf"):
        frame = row[name]
        if frame is not None and frame != (frames[-1] if frames else None):
            label = sampled(str(frame), "library")
            if not path or path[-1] != label:
                path.append(label)
    if row["collector"]:
        path.append(Label("garbage collector", "library"))
    return tuple(path) or (Label("not written down", "unknown"),)


def tree_frame(tree: CallTree, labels: Sequence[Label], texts: dict[Label, str], **whose: object) -> pl.DataFrame:
    """A table of NODE, with constant columns before them."""
    of = [labels[label] for label in tree.label.tolist()]
    parent = pl.Series("parent", tree.parent)
    frame = pl.DataFrame({
        "node": np.arange(len(of), dtype=np.int64), "parent": parent.set(parent < 0, None), "depth": tree.depth,
        "name": [label.name for label in of], "kind": [label.kind for label in of],
        "file": [label.file or None for label in of],
        "line": pl.Series([label.line or None for label in of], dtype=pl.Int64),
        "text": pl.Series([texts.get(label) for label in of], dtype=pl.String),
        "calls": tree.calls, "total": tree.total, "self": tree.own,
    })  # fmt: skip
    whole = int(tree.total[0])
    share = pl.Series("share", tree.total / whole) if whole else pl.lit(None, dtype=pl.Float64).alias("share")
    return frame.with_columns(share, **{name: pl.lit(value) for name, value in whose.items()})
