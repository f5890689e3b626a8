"""Which devices a run has, and which of them it uses: a trace lists all devices of its host.

ROCm numbers devices among all agents, processors included, in its events, and among GPUs only in their descriptions. So
a device that did work and that nobody describes is taken for one of the rank's described ones, where these are alike.
"""

import polars as pl

from stepscope.analyses.lib.device_work import ACCELERATOR, WORK
from stepscope.core.run import Run, stack
from stepscope.core.schema import DataType

__all__ = ["device_facts", "devices_named", "devices_used", "works_in_another_form"]

_SCHEMA: dict[str, DataType] = {
    "name": pl.String, "memory": pl.Int64, "capability": pl.String, "listed": pl.Int64, "used": pl.Int64,
}  # fmt: skip
_MODEL = ["name", "memory", "capability"]
_DEVICE = ["rank", "device"]
_GIB = (pl.col("memory") / 2**30).round()  # devices of a model differ by what the driver and faulty pages take
_MEMORY = pl.col("memory").min().over("name", "capability", _GIB)


def device_facts(run: Run) -> pl.DataFrame:
    """Rank, device, name, memory and capability of all devices that are described or did work."""
    return run.once(_device_facts)


def devices_used(run: Run) -> pl.DataFrame:
    """Devices by name, memory and capability: how many the hosts have, and how many did work (null: nobody watched).

    Ranks of one host that list several devices list the same ones; where each sees one device only, it is its own. A
    device that did work and that no source describes has no name.
    """
    return run.once(_devices_used)


def works_in_another_form(run: Run) -> bool:
    """Whether an accelerator did work that is not recorded as kernels."""
    return not run.per_rank(_working_in_another_form, stack).is_empty()


def _working_in_another_form(run: Run) -> pl.DataFrame:
    kinds = run.optional("device", "rank", "kind")
    return kinds.filter(pl.col("kind") == ACCELERATOR).select("rank").unique(maintain_order=True)


def devices_named(run: Run) -> pl.DataFrame:
    """Rank, device and name of all devices that are described or did work, each once, under its described number."""
    described = _described(run)
    worked = _as_described(run.per_rank(_worked, stack), described)
    both = pl.concat((described, worked.join(described, on=_DEVICE, how="anti")), how="diagonal_relaxed")
    return both.select(*_DEVICE, "name").sort(_DEVICE)


def _described(run: Run) -> pl.DataFrame:
    devices = run.optional("devices").select(*_DEVICE, *_MODEL)
    return devices.unique(_DEVICE, keep="first", maintain_order=True)


def _worked(run: Run) -> pl.DataFrame:
    device = run.optional("device", *_DEVICE, "kind").filter(pl.col("kind").is_in(WORK))
    return device.select(_DEVICE).unique().sort(_DEVICE)


def _alike(described: pl.DataFrame) -> pl.DataFrame:
    """The model of each rank whose devices are all the same."""
    models = described.select("rank", "name", _MEMORY, "capability").unique(maintain_order=True)
    return models.filter(pl.len().over("rank") == 1)


def _device_facts(run: Run) -> pl.DataFrame:
    described = _described(run)
    unknown = run.per_rank(_worked, stack).join(described, on=_DEVICE, how="anti")
    return pl.concat((described, unknown.join(_alike(described), on="rank", how="left")), how="diagonal_relaxed")


def _as_described(worked: pl.DataFrame, described: pl.DataFrame) -> pl.DataFrame:
    """Devices that did work, under numbers of the description."""
    if worked.is_empty():
        return worked
    place = pl.int_range(pl.len()).over("rank")
    free = described.join(worked, on=_DEVICE, how="anti").select("rank", own="device", place=place)
    foreign = worked.join(described, on=_DEVICE, how="anti").join(_alike(described), on="rank", how="semi")
    renamed = foreign.with_columns(place=place).join(free, on=["rank", "place"], how="left")
    renamed = renamed.select("rank", device=pl.coalesce("own", "device"))
    return pl.concat((worked.join(foreign, on=_DEVICE, how="anti"), renamed))


def _devices_used(run: Run) -> pl.DataFrame:
    hosts = run.optional("processes").group_by("rank").agg(pl.col("host").first())
    described = _described(run)
    worked = _as_described(run.per_rank(_worked, stack), described).with_columns(works=pl.lit(True))
    both = described.join(worked, on=_DEVICE, how="full", coalesce=True).join(hosts, on="rank", how="left")
    if both.is_empty():
        return pl.DataFrame(schema=_SCHEMA)
    private = pl.len().over("rank") == 1
    # Ranks without a host name, or with one device each, share nothing.
    place = pl.when(private | pl.col("host").is_null()).then(pl.format("rank {}", "rank")).otherwise("host")
    one = both.with_columns(place=place).group_by("place", "device", maintain_order=True).agg(
        pl.col(_MODEL).drop_nulls().first(), pl.col("works").any()
    ).with_columns(_MEMORY)  # fmt: skip
    watched = run.rows("host") > 0 or run.rows("device") > 0
    counts = one.group_by(_MODEL).agg(listed=pl.len(), used=pl.col("works").sum())
    counts = counts.with_columns(used=pl.when(pl.lit(watched)).then("used"))
    return counts.select(pl.col(name).cast(kind) for name, kind in _SCHEMA.items()).sort(
        "listed", *_MODEL, descending=[True, False, False, False], nulls_last=True
    )
