"""Three questions about the run at hand: what the workload does, where its code executes, where its data lives."""

import polars as pl

from stepscope.analyses.bound.bound import bound
from stepscope.analyses.device.other_devices import other_devices
from stepscope.analyses.lib.devices_used import devices_used, works_in_another_form
from stepscope.analyses.lib.sample_work import has_gpu
from stepscope.analyses.operators.operators import operators
from stepscope.analyses.steps.steady_steps import steady_steps
from stepscope.core.errors import MissingData
from stepscope.core.report import Block, Section, Text, Value
from stepscope.core.run import Run, chain
from stepscope.core.schema import Unit
from stepscope.models.limiting_rank import limiting_row
from stepscope.report.memory_only import holds_memory_only
from stepscope.report.sections import has_device_work, literal, many

__all__ = ["SECTION"]

_HEAVIEST = 3  # operators that are named
_SHARES = {
    "device": "compute",
    "input": "data wait",
    "cpu_contention": "waiting for cores used by loader workers",
    "host": "Python, I/O and launches",
    "communication": "exposed communication",
    "memory": "exposed copies",
    "unexplained": "unexplained idle time",
}
_COPIES = {"HtoD": "from host to device", "DtoH": "from device to host", "DtoD": "within devices"}


class _Prose:
    """Sentences with values, joined into one Text block."""

    def __init__(self, lead: str) -> None:
        self._lead = lead
        self._sentences: list[str] = []
        self._values: list[Value] = []

    def say(self, sentence: str, *values: tuple[float | None, Unit | None]) -> None:
        """Add a sentence, unless one of its values is unknown."""
        known = [Value(value, unit) for value, unit in values if value is not None]
        if len(known) == len(values):
            self._sentences.append(sentence)
            self._values += known

    def blocks(self) -> list[Block]:
        """One Text, or nothing when nothing is known."""
        return [Text(f"{self._lead} {' '.join(self._sentences)}", tuple(self._values))] if self._sentences else []


def build(run: Run) -> list[Block]:
    blocks = [*_does(run), *_executes(run), *_lives(run)]
    if not blocks:
        raise MissingData("description of the job", how="run it with `stepscope run -- COMMAND`")
    return blocks


def _does(run: Run) -> list[Block]:
    prose = _Prose("Workload:")
    for name, parameters, elements in run.optional("optimizers").select("name", "parameters", "elements").unique(
        maintain_order=True
    ).iter_rows():  # fmt: skip
        sizes: tuple[tuple[float | None, Unit | None], ...] = ((elements, "count"), (parameters, "count"))
        prose.say(
            f"{literal(name or 'an optimizer')} trains {many(elements, 'parameter')} in {many(parameters, 'tensor')}.",
            *sizes,
        )
    try:
        steady = steady_steps(run)
    except MissingData:
        steady = None
    if steady is not None:
        _say_batches(prose, steady)
    heaviest = ", ".join(map(literal, _heaviest(run)))
    if heaviest:
        prose.say(f"Longest operators: {heaviest}.")
    return prose.blocks()


def _say_batches(prose: _Prose, steady: pl.DataFrame) -> None:
    samples, batches, duration = steady.select(pl.col("samples", "micro_batches", "duration").mean()).row(0)
    if batches is not None and batches > 1:
        prose.say(
            f"The mean step has {many(samples, 'sample')} in {{}} backward passes.",
            (samples, "count"),
            (batches, "count"),
        )
    else:
        prose.say(f"The mean step has {many(samples, 'sample')}.", (samples, "count"))
    if samples and duration:
        pace = samples / duration * 1e9
        prose.say(f"Mean throughput per rank: {many(pace, 'sample')} per second.", (pace, "count"))


def _heaviest(run: Run) -> list[str]:
    """Names of the operators with the most self time, on the device if there is one."""
    try:
        table = operators(run)
    except MissingData:
        return []
    by = "device_self" if (table["device_self"].fill_null(0) > 0).any() else "host_self"
    return (
        table.sort(by, descending=True, nulls_last=True)["name"].unique(maintain_order=True).head(_HEAVIEST).to_list()
    )


def _executes(run: Run) -> list[Block]:
    prose = _Prose("Execution:")
    processes, devices = run.optional("processes"), run.optional("devices")
    if not processes.is_empty():
        hosts = ", ".join(literal(host) for host in processes["host"].drop_nulls().unique().sort())
        ranks, world = processes["rank"].n_unique(), processes["world_size"].max()
        where = f" on {hosts}" if hosts else ""
        if isinstance(world, int) and world > ranks:
            prose.say(f"{{}} of {{}} ranks opened{where}.", (ranks, "count"), (world, "count"))
        elif ranks == 1:
            prose.say(f"One process{where}.")
        else:
            prose.say(f"{{}} ranks{where}.", (ranks, "count"))
        threads = processes["threads"].drop_nulls().max()
        if threads == 1:
            prose.say("Operators on the CPU use one thread.")
        else:
            prose.say("Operators on the CPU use {} threads.", (threads, "count"))  # type: ignore[arg-type]
    workers = run.optional("loaders").filter(pl.col("train").fill_null(False))["num_workers"].max()
    if workers == 0:
        prose.say("The training process loads batches itself (num_workers=0).")
    elif workers == 1:
        prose.say("One loader worker per rank.")
    elif workers is not None:
        prose.say("{} loader workers per rank.", (workers, "count"))  # type: ignore[arg-type]
    _say_devices(prose, run)
    worked = not devices.is_empty() or run.rows("device") or holds_memory_only(run)
    if not worked and not processes.is_empty():
        prose.say("No accelerator work was recorded.")
    _say_shares(prose, run)
    return prose.blocks()


def _say_devices(prose: _Prose, run: Run) -> None:
    """The devices of the hosts, and how many of them did work: a trace lists all that its host has."""
    models = devices_used(run).group_by("name", maintain_order=True).agg(pl.col("listed", "used").sum())
    unwatched = devices_used(run)["used"].is_null().any()
    in_another_form = works_in_another_form(run)
    for name, listed, used in models.iter_rows():
        model = f"{{}} × {literal(name)}" if name else f"{many(listed, 'device')} whose name was not recorded"
        if unwatched or used == listed:
            prose.say(f"{model}.", (listed, "count"))
        elif used:
            prose.say(f"The host has {model}; this run uses {{}}.", (listed, "count"), (used, "count"))
        else:
            told = "whose work is not recorded as kernels" if in_another_form else "on which the trace shows no work"
            prose.say(f"The host has {model}, {told}.", (listed, "count"))
    if in_another_form:
        for span, idle in other_devices(run).select("span", "idle").iter_rows():
            told = "An accelerator (MTIA), whose work is not recorded as kernels, works for {} of {}."
            prose.say(told, (span - idle, "ns"), (span, "ns"))


def _say_shares(prose: _Prose, run: Run) -> None:
    """What a step consists of; shares that are unknown or nothing are left out."""
    try:
        bound(run)
    except MissingData:
        return
    row = limiting_row(run)
    if row is None:
        return
    words_of = _SHARES if has_gpu(run) else _SHARES | {"host": "Python and file I/O"}
    if row["cpu_contention"]:
        row |= {"input": row["input"] - row["cpu_contention"]}
    known = {words: row[name] for name, words in words_of.items() if row[name]}
    if known:
        shares: list[tuple[float | None, Unit | None]] = [(share, "ratio") for share in known.values()]
        parts = ", ".join(f"{{}} {words}" for words in known)
        recorded = "From first to last device work" if has_gpu(run) else "From first to last operator"
        whole = "The mean step" if _marks_steps(run) else recorded
        if run.optional("processes")["rank"].n_unique() > 1:
            prose.say(f"{whole} of rank {{}}: {parts}.", (row["rank"], None), *shares)
        else:
            prose.say(f"{whole}: {parts}.", *shares)


def _marks_steps(run: Run) -> bool:
    try:
        return not steady_steps(run).is_empty()
    except MissingData:
        return False


def _lives(run: Run) -> list[Block]:
    prose = _Prose("Data:")
    train = run.optional("loaders").filter(pl.col("train").fill_null(False)).unique("dataset", maintain_order=True)
    for row in train.iter_rows(named=True):
        place = f" ({literal(row['dataset_file'])}:{row['dataset_line']})" if row["dataset_file"] else ""
        pinned = {True: "pinned", False: "pageable"}.get(row["pin_memory"])
        memory = f"; batches wait in {pinned} host memory" if pinned and has_device_work(run) else ""
        prose.say(f"Samples come from {literal(row['dataset'] or 'a data set')}{place}{memory}.")
    copied = [(label, size / steps) for label, size, steps in _copied(run) if steps]
    if copied:
        sizes: list[tuple[float | None, Unit | None]] = [(size, "bytes") for _, size in copied]
        prose.say(f"A traced step copies {', '.join(f'{{}} {label}' for label, _ in copied)}.", *sizes)
    for what, peak in _peaks(run):
        prose.say(f"{literal(what[:1].upper() + what[1:])} reached {{}}.", (peak, "bytes"))
    return prose.blocks()


def _copied(run: Run) -> list[tuple[str, int, int]]:
    """Direction, bytes and traced steps of the copies on devices."""
    copies = run.per_rank(_copies, chain)
    try:
        recorded = steady_steps(run)
    except MissingData:
        return []
    traced = recorded.filter(pl.col("clock") == "kineto").height
    sizes = ((label, sum(size for _, towards, size in copies if towards == label)) for label in _COPIES.values())
    return [(label, size, traced) for label, size in sizes if size]


def _copies(run: Run) -> tuple[tuple[int, str, int], ...]:
    """For each rank, direction and bytes of the copies on its devices."""
    device = run.optional("device", "rank", "name", "kind", "bytes")
    copies = device.filter((pl.col("kind") == "memcpy") & pl.col("bytes").is_not_null())
    sizes = copies.group_by("rank").agg(
        pl.col("bytes").filter(pl.col("name").str.contains(direction, literal=True)).sum().alias(label)
        for direction, label in _COPIES.items()
    )
    rows = sizes.sort("rank").to_dicts()
    return tuple((row["rank"], label, row[label]) for row in rows for label in _COPIES.values())


def _peaks(run: Run) -> list[tuple[str, float]]:
    """The largest sample of each memory that was watched."""
    memory = run.optional("system").filter(pl.col("unit") == "bytes")
    return list(memory.group_by("what", maintain_order=True).agg(pl.col("value").max()).iter_rows())


SECTION = Section(title="The workload", order=20, build=build)
