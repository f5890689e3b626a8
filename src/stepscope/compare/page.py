"""A comparison as blocks: the verdict, two bars of one scale and what explains the change first; then the details."""

from collections.abc import Iterable
from dataclasses import replace

from stepscope.compare.call_trees import STEP
from stepscope.compare.changes import Change, Changes
from stepscope.compare.comparison import Comparison, FoundChange
from stepscope.compare.intervals import intervals_of
from stepscope.compare.run_summary import Side
from stepscope.compare.sentences import doubt_text, samples_text, verdict_text
from stepscope.compare.series import Series
from stepscope.compare.settings import Setting
from stepscope.compare.tree_block import tree_block
from stepscope.compare.tree_changes import BETWEEN, PathChange
from stepscope.core.finding import Finding
from stepscope.core.report import Bar, Bars, Block, Cell, Table, Text, Value
from stepscope.core.schema import Unit
from stepscope.render.document import Page, Part
from stepscope.render.format import shorten, title_text
from stepscope.report.sections import literal, many

__all__ = ["page_of"]

_SHOWN = 12  # rows by name: a screen; the JSON holds all
_FOREMOST = 6  # settings and rows of the first screen
_NOTABLE = 0.005  # of the larger traced step: on the first screen, less would only hide the rest
_SAME_MEAN = 0.005  # of a mean step: two that differ by less are told by the same digits
_NO_SHARE = 0.0005  # below it a share reads as nothing
_PHASES = {"data_wait": "data wait"}
_OPERATORS = ("operators on the device", "operators on the host")
_REDUNDANT = {
    "operators on the device": "operators on the host",
    "modules by class, on the device": "modules by class, on the host",
}
_SAID_ONCE = ("few-steps", "wide")  # the verdict says all there is to say of them
# Many rows alike: names without shapes, and classes without instances, say it in few rows.
_IN_JSON_ONLY = (
    "modules on the device",
    "modules on the host",
    "operators by shapes, on the device",
    "operators by shapes, on the host",
)
_ENGINE = "autograd::engine::evaluate_function: "  # around each function, whose name says as much
_MOST = 0.5  # of the change on the host: if the device's own is as large, its calls explain it better
_NAME = 72  # characters of a name: a screen of rows, not of names; the JSON has them in full
_PER_STEP = "Calls and times are those of the mean traced step of a rank; work in parallel counts in full."
_ALIGNED = (
    "Calls of A and B are matched by their path from the step down, repeated ones in their order. Times are those of "
    "the calls themselves, without calls inside; a call in one run only counts with all inside it. So the rows add up."
)
_PER_RECORDING = "Calls and times are those of all that was recorded of a rank, because steps are not marked in both."
Columns = tuple[tuple[str, Unit | None], ...]
_DIFFERENCE: Columns = (("A", "ns"), ("B", "ns"), ("B - A", "ns"), ("B / A", None), ("of the change", "ratio"))


def page_of(comparison: Comparison) -> Page:
    """The page that renderers draw."""
    parts = [
        Part(name="comparison", title="Comparison", blocks=tuple(_summary(comparison))),
        Part(name="settings", title="How the runs differ", blocks=tuple(_settings(comparison))),
        Part(name="device", title="Time of the device", blocks=tuple(_of_device(comparison))),
        Part(name="breakdown", title="Traced step", blocks=tuple(_of_traced_step(comparison))),
        *_trees(comparison),
        *_by_name(comparison),
        Part(name="findings", title="Findings", blocks=tuple(_findings(comparison.findings))),
        Part(name="compared", title="What was compared", blocks=tuple(_compared(comparison))),
    ]
    subject = f"{comparison.a.path} and {comparison.b.path}"
    shown = tuple(replace(part, group="comparison") for part in parts if part.blocks)
    return Page(name="stepscope comparison", subject=subject, parts=shown)


def _summary(comparison: Comparison) -> Iterable[Block]:
    yield verdict_text(comparison)
    more = samples_text(comparison)
    if more:
        yield more
    yield Text(f"A: {literal(comparison.a.path, 400)}")
    yield Text(f"B: {literal(comparison.b.path, 400)}")
    yield from intervals_of(comparison)
    yield from _bars(comparison)
    yield from _explained(comparison)
    for doubt in comparison.outcome.doubts:
        if doubt not in comparison.outcome.because[:1] and doubt.cause not in _SAID_ONCE:
            told = doubt_text(doubt)
            yield Text(f"Caution: {told.text}.", told.values)
    if comparison.settings:
        yield _differing(comparison)


def _bars(comparison: Comparison) -> Iterable[Block]:
    """Both runs on one scale."""
    chosen, _ = _pictured(comparison)
    if chosen is None:
        return
    whole = max(chosen.a, chosen.b)
    for title, side in (("A", "a"), ("B", "b")):
        parts = tuple(Bar(_PHASES.get(row.name, row.name), getattr(row, side) or 0) for row in _drawn(chosen))
        yield Bars(title, "ns", parts, whole)


def _pictured(comparison: Comparison) -> tuple[Changes | None, str]:
    """What the first screen divides: phases if they tell anything, which those of inference do not."""
    if comparison.phases and len(_drawn(comparison.phases)) > 1:
        return comparison.phases, "phase"
    if comparison.breakdown:
        return comparison.breakdown, "kind"
    return comparison.device or comparison.phases, "part"


def _drawn(changes: Changes) -> list[Change]:
    return [row for row in changes.rows if row.a or row.b]


def _explained(comparison: Comparison) -> Iterable[Block]:
    """The parts of the change, largest first, and the rows by name that make most of it."""
    chosen, what = _pictured(comparison)
    if chosen is None:
        return
    rows = sorted(_drawn(chosen), key=lambda row: -abs(row.difference))
    yield _table("What explains the change", ((what, None),), map(_parts, [*rows, _total(chosen)]), chosen)
    yield from _without_shares(chosen)
    what, named = _foremost(comparison)
    rows = _notable(comparison, named) if named else []
    if rows and named:
        yield _table("Largest differences in the traced steps", _heads(what), map(_row, rows), named)


def _foremost(comparison: Comparison) -> tuple[str, Changes | None]:
    """Where the change is looked for first: in the calls by the device's time, if that changed, or by the host's."""
    host, device = comparison.trees.get("host"), comparison.trees.get("device")
    if host and device and abs(device.b - device.a) < _MOST * abs(host.b - host.a):
        return "call on the host", host
    if device or host:
        return ("call, time on the device", device) if device else ("call on the host", host)
    what = next((name for name in _OPERATORS if name in comparison.by_name), "")
    return what.replace("operators", "operator"), comparison.by_name.get(what)


def _notable(comparison: Comparison, changes: Changes) -> list[Change]:
    """The largest rows by name that make a difference in a traced step."""
    step = comparison.breakdown or comparison.device or changes
    least = _NOTABLE * max(step.a, step.b)
    return [row for row in changes.rows[:_FOREMOST] if row.difference and abs(row.difference) >= least]


def _of_device(comparison: Comparison) -> Iterable[Block]:
    if comparison.device:
        per = ", per traced step" if comparison.by_step else ""
        yield Text(f"The time from the first to the last work on a device{per}; it lacks what came before and after.")
        yield from _division("part", comparison.device)


def _of_traced_step(comparison: Comparison) -> Iterable[Block]:
    if comparison.breakdown:
        yield from _two_means(comparison, comparison.breakdown)
        yield from _division("kind", comparison.breakdown)


def _two_means(comparison: Comparison, traced: Changes) -> Iterable[Text]:
    """Why the mean traced step is not the mean of the steps on the first screen."""
    a, b = comparison.speed.a, comparison.speed.b
    if not (comparison.by_step and a and b):
        return
    means = (traced.a, traced.b, a.phases.whole, b.phases.whole)
    if all(abs(one - two) <= _SAME_MEAN * two for one, two in zip(means[:2], means[2:], strict=True)):
        return
    why = "These are traced steps, {} → {}, and tracing makes steps longer; the {} → {} above were not traced."
    if a.traced and b.traced:
        why = "These steps go on until their work on the device ends, {} → {}; above they end on the host, {} → {}."
    yield Text(why, tuple(Value(mean, "ns") for mean in means))


def _division(what: str, changes: Changes) -> Iterable[Block]:
    rows = sorted(_drawn(changes), key=lambda row: -abs(row.difference))
    yield _table("", ((what, None),), map(_parts, [*rows, _total(changes)]), changes)
    yield from _without_shares(changes)


def _table(title: str, lead: Columns, rows: Iterable[tuple[Cell, ...]], changes: Changes, enough: int = 0) -> Table:
    """A table of changes; without shares if there are none."""
    columns = (*lead, *_DIFFERENCE[: None if _has_shares(changes) else -1])
    change = columns.index(_DIFFERENCE[2])
    return Table(title, columns, tuple(row[: len(columns)] for row in rows), change=change, enough=enough)


def _has_shares(changes: Changes) -> bool:
    return any(row.share is not None for row in changes.rows)


def _without_shares(changes: Changes) -> Iterable[Text]:
    """Why a table has no shares of the change."""
    before, after = changes.wholes
    whole = max(before, after)
    if changes.rows and whole and not _has_shares(changes):
        why = "No shares of the change are given: what grew and what shrank leave {} of {}."
        yield Text(why, (Value(after - before, "ns"), Value(whole, "ns")))


def _trees(comparison: Comparison) -> Iterable[Part]:
    per = _PER_STEP if comparison.by_step else _PER_RECORDING
    for what, changes in comparison.trees.items():
        tree = tree_block("As a tree, each call with all inside it", changes) if changes.a != changes.b else None
        note, *listed = _named_rows(changes, f"{_ALIGNED} {per}", "path")
        blocks = (note, *([tree] if tree else []), *listed, *_without_shares(changes))
        yield Part(name=f"calls-on-the-{what}", title=f"Calls by path, time on the {what}", blocks=blocks)


def _by_name(comparison: Comparison) -> Iterable[Part]:
    note = _PER_STEP if comparison.by_step else _PER_RECORDING
    hidden = {host for device, host in _REDUNDANT.items() if device in comparison.by_name}
    for what, changes in comparison.by_name.items():
        if what not in hidden and what not in _IN_JSON_ONLY:
            yield Part(name=what.replace(" ", "-"), title=what.capitalize(), blocks=tuple(_named_rows(changes, note)))


def _named_rows(changes: Changes, note: str, what: str = "name") -> Iterable[Block]:
    rows = [row for row in changes.rows if row.difference or row.calls_a != row.calls_b]
    if not rows:
        yield Text("No difference.")
        return
    gone, new = (sum(row.matched == side for row in rows) for side in ("vanished", "appeared"))
    values = tuple(Value(count, "count") for count in (len(changes.rows), gone, new))
    yield Text(f"{note} Of {{}} {what}s {{}} are in A only, and {{}} in B only.", values)
    yield _table("", _heads(what), map(_row, rows), changes, enough=_SHOWN)


def _heads(what: str) -> Columns:
    return ((what, None), ("calls A", "count"), ("calls B", "count"))


def _row(row: Change) -> tuple[Cell, ...]:
    return (_name(row), row.calls_a, row.calls_b, *_numbers(row))


def _name(row: Change) -> str:
    """The name, a long one without its middle, of a path of modules without its begin; `…` where it is shortened."""
    if isinstance(row, PathChange):
        return _path(row)
    name = f"{row.name} …" if row.matched == "short name" else row.name
    is_path = "." in name and not any(mark in name for mark in ("::", "<", "(", " "))
    return "…" + name[1 - _NAME :] if is_path and len(name) > _NAME else shorten(name, _NAME)


def _path(row: PathChange) -> str:
    """The names from the step down, of which the last are the ones to know."""
    if row.path == (STEP,):
        return f"{STEP}, outside of the calls in it"
    names = [name.removeprefix(_ENGINE) for name in row.path[row.path[0] == STEP and len(row.path) > 1 :]]
    path = [name for place, name in enumerate(names) if name not in names[place + 1 : -1][:1]]
    kept = next((first for first in range(len(path)) if len(BETWEEN.join(path[first:])) <= _NAME), len(path) - 1)
    name = BETWEEN.join(("…", *path[kept:]) if kept else path)
    return shorten(f"{name} …" if row.matched == "short name" else name, _NAME)


def _parts(row: Change) -> tuple[Cell, ...]:
    return (_PHASES.get(row.name, row.name), *_numbers(row))


def _numbers(row: Change) -> tuple[Cell, ...]:
    share = 0.0 if row.share is not None and abs(row.share) < _NO_SHARE else row.share
    return (row.a, row.b, row.difference, row.ratio, share)


def _total(changes: Changes) -> Change:
    return Change(name="all", a=changes.a, b=changes.b, share=None)


def _differing(comparison: Comparison) -> Text:
    """The first settings that differ, the command last: it is long."""
    names = sorted(comparison.settings, key=lambda name: (name == "command", name == "host"))
    told = [f"{name} {_told(comparison.settings[name])}" for name in names if name != "command"][:_FOREMOST]
    told += ["the command"] if "command" in names else []
    return Text(f"The runs differ in: {'; '.join(told)}.")


def _told(sides: tuple[Setting, Setting]) -> str:
    return " → ".join("–" if side is None else literal(str(side), 80) for side in sides)


def _settings(comparison: Comparison) -> Iterable[Block]:
    if comparison.settings:
        rows = tuple((name, *map(_cell, sides)) for name, sides in comparison.settings.items())
        yield Table("", (("setting", None), ("A", None), ("B", None)), rows)


def _cell(setting: Setting) -> Cell:
    return None if setting is None else str(setting)


def _findings(findings: tuple[FoundChange, ...]) -> Iterable[Block]:
    columns: Columns = (("finding", None), ("rule", None), ("found", None), ("saves in A", "ns"), ("saves in B", "ns"))
    rows = tuple(
        (title_text(found.title), found.rule, _found(found), _gain(found.a), _gain(found.b)) for found in findings
    )
    if rows:
        yield Text("Savings are upper ends of the predicted gain per step.")
        yield Table("", columns, rows)


def _found(found: FoundChange) -> str:
    if found.a is None:
        return "B only: new"
    return "A only: gone" if found.b is None else "both"


def _gain(finding: Finding | None) -> int | None:
    return finding.gain.high_ns if finding and finding.gain else None


def _compared(comparison: Comparison) -> Iterable[Block]:
    for name, side, series in (("A", comparison.a, comparison.speed.a), ("B", comparison.b, comparison.speed.b)):
        yield _steps(name, side, series)
    if comparison.speed.ratio:
        yield Text(
            "The interval is a block bootstrap over the steps. It covers noise within these two runs. Two runs of one "
            "command differ by more, so repeat a close comparison."
        )
    a, b = comparison.a, comparison.b
    both = {"device time": (a.device, b.device), "traced steps": (a.breakdown, b.breakdown)}
    lacking = [what for what, sides in both.items() if (sides[0] is None) != (sides[1] is None)]
    if lacking:
        yield Text(f"Recorded in one run only, so not compared: {', '.join(lacking)}.")
    if a.calls and b.calls and not comparison.trees:
        yield Text("Calls are not matched by path: only one run has step markers.")


_CLOCKS = {"host": "the host clock", "host-backward": "the host clock", "kineto": "the profiler's clock"}


def _steps(name: str, side: Side, series: Series | None) -> Text:
    if series is None:
        return Text(f"{name}: no steps.")
    kind = "traced" if series.traced else "untraced"
    clock = " and ".join(dict.fromkeys(_CLOCKS.get(one, one) for one in series.clocks)) or "the clock of the source"
    text = f"{name}: {many(len(series.times), f'{kind} step')}, on {clock}; {{}} left out."
    if side.traced_steps and not series.traced:
        text += f" Operators and kernels are from {many(side.traced_steps, 'traced step')}."
        values = (Value(len(series.times), "count"), Value(series.left_out, "count"), Value(side.traced_steps, "count"))
        return Text(text, values)
    return Text(text, (Value(len(series.times), "count"), Value(series.left_out, "count")))
