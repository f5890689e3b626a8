"""The process groups that a trace's header lists: names, purposes and members."""

import json

import polars as pl

from stepscope.core.run import Run
from stepscope.core.schema import DataType

__all__ = ["group_config"]

_MOST_RANKS = 2**31  # a larger number in a damaged header is none
_SCHEMA: dict[str, DataType] = {
    "rank": pl.Int32, "group": pl.String, "description": pl.String, "size": pl.Int64, "members": pl.String,
}  # fmt: skip


def group_config(run: Run) -> pl.DataFrame:
    """Each rank's process groups: rank, group, description, size, members (JSON); none where the header lists none."""
    return run.once(_group_config)


def _group_config(run: Run) -> pl.DataFrame:
    sources = dict(run.optional("processes", "source", "rank").iter_rows())
    headers = run.optional("meta").filter(pl.col("key") == "distributedInfo")
    rows: list[tuple[object, ...]] = []
    for source, text in headers.select("source", "value").iter_rows():
        header = _header(text)
        rank = _rank(header.get("rank"))
        rank = sources.get(source) if rank is None else rank
        if rank is not None:
            rows += [(rank, *group) for group in _groups(header.get("pg_config"))]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row").unique(["rank", "group"], keep="first", maintain_order=True)


def _header(text: str) -> dict[str, object]:
    try:
        header = json.loads(text)
    except ValueError:  # a header can hold anything
        return {}
    return header if isinstance(header, dict) else {}


def _rank(value: object) -> int | None:
    """A rank, which traces on demand write as text."""
    text = str(value) if isinstance(value, int | str) else ""
    return int(text) if text.isdecimal() and int(text) < _MOST_RANKS else None


def _groups(groups: object) -> list[tuple[str, str | None, int | None, str | None]]:
    return [_group(group) for group in groups if isinstance(group, dict)] if isinstance(groups, list) else []


def _group(group: dict[str, object]) -> tuple[str, str | None, int | None, str | None]:
    description, size, ranks = group.get("pg_desc"), group.get("pg_size"), group.get("ranks")
    return (
        str(group.get("pg_name")),
        description if isinstance(description, str) and description else None,
        size if isinstance(size, int) and 0 < size < _MOST_RANKS else None,
        json.dumps(ranks) if isinstance(ranks, list) else None,
    )
