"""What limits the run, what was lost of it, one step as a bar, and where the time goes if nothing was found."""

from collections.abc import Mapping
from pathlib import PurePath

import polars as pl

from stepscope.analyses.input_pipeline.lib.loader_overrides import asked_overrides, overrides_of
from stepscope.analyses.lib.cut_traces import cuts
from stepscope.core.report import Block, Section, Text, Value
from stepscope.core.run import Run
from stepscope.render.commands import path_argument
from stepscope.report.diagnose import diagnose
from stepscope.report.first_screens import checks_done, where_the_time_goes
from stepscope.report.sections import literal, many
from stepscope.report.step_bar import step_bar, two_clocks

__all__ = ["NO_TRACE", "SECTION"]

# Reasons of the importers, in table `skipped`. What was repaired or is one odd event of a whole file is no loss.
_CUT = r"^the file is truncated|ends too early|^incomplete event at the cut"
_DAMAGED = (
    r"is damaged: what could be|may be damaged$|^event that is not valid JSON: left out$|^another JSON document follows"
)
_UNREAD = r": not read$"
NO_TRACE = r"^not a trace|^an execution trace|^a list that holds no events|JSON lines"
"""Reasons of other files of a folder, which are no loss."""

_NO_END = {
    "running": "The job still runs: this report covers its steps so far.",
    "running, or stepscope was killed": (
        "The job still runs, or stepscope was killed: this report covers its steps so far."
    ),
}
"""What is told of the states in which the importer of run folders finds a run without an end."""

_SHORT = 60  # letters of a path in a sentence: with a longer one no line holds the command
_WINDOW = r"^trace of window "


def build(run: Run) -> list[Block]:
    return [
        diagnose(run).verdict,
        *_contended(run),
        *_still_running(run),
        *_overridden(run),
        *_other_jobs(run),
        *_all_left_out(run),
        *_losses(run),
        *_damaged(run),
        *step_bar(run),
        *two_clocks(run),
        *where_the_time_goes(run),
        *checks_done(run, literal(path_argument(run.path, _SHORT))),
    ]


def _contended(run: Run) -> list[Block]:
    """If other processes make the steps long: then no other figure is that of a quiet machine."""
    rules = [block.rule for block in diagnose(run).findings]
    if "cpu-contention" not in rules:
        return []
    if len(rules) == 1:  # a finding alone has no number
        return [Text("Other processes slow this run: fix what is found below, then record again.")]
    told = "Other processes slow this run: fix finding {}, then record again."
    return [Text(told, (Value(rules.index("cpu-contention") + 1, "count"),))]


def _still_running(run: Run) -> list[Block]:
    """That the job had not ended when the run was opened; of another machine nobody can tell that from a killed one."""
    states = run.optional("meta").filter(pl.col("key") == "state")["value"].to_list()
    told = [told for state, told in _NO_END.items() if state in states]
    return [Text(text) for text in told]


def _other_jobs(run: Run) -> list[Block]:
    """If the run holds several jobs, such as those of a sweep: how many, and how to open another."""
    others = run.optional("meta").filter(pl.col("key") == "other_job")["value"].to_list()
    if not others:
        return []
    text = "The run holds {} independent jobs; this report covers one. "
    told = f"{text}For another: `stepscope report {literal(others[0], 400)}`."
    return [Text(told, (Value(len(others) + 1, "count"),))]


def _overridden(run: Run) -> list[Block]:
    """That this is a trial: which settings were not the script's own, and which it could not be given."""
    told = []
    for one in overrides_of(run):
        where = f"the loader of {one.place}" if one.place else "a loader"
        if one.refused is not None:
            told.append(f"Trial run: {_settings(one.wanted)} not applied to {where}: {one.refused}.")
        elif one.changed:
            changed = {name: f"{new} (script: {old})" for name, (old, new) in one.changed.items()}
            told.append(f"Trial run: {where} uses {_settings(changed)}.")
    asked = asked_overrides(run)
    if asked and not overrides_of(run):
        told.append(f"Trial run: {_settings(asked)} not applied: training used no torch DataLoader.")
    return [Text(literal(text, 400)) for text in dict.fromkeys(told)]


def _settings(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _all_left_out(run: Run) -> list[Block]:
    """That a trace has events, and none of them could be used: then nothing else says why nothing is known."""
    keys = ("events", "metadata_events", "events_left_out")
    counts = (
        run.optional("meta").filter(pl.col("key").is_in(keys)).group_by("key").agg(pl.col("value").cast(pl.Int64).sum())
    )
    events, named, left_out = (dict(counts.iter_rows()).get(key, 0) for key in keys)
    if not left_out or left_out < events - named:
        return []
    reasons = run.optional("skipped").filter(pl.col("reason").str.ends_with(": left out")).sort("count", "reason")
    why = literal(reasons["reason"][-1].removesuffix(": left out")) if reasons.height else "they are damaged"
    text = f"All {{}} events of the trace are unusable. Most frequent reason: {why}."
    return [Text(text, (Value(left_out, "count"),))]


def _losses(run: Run) -> list[Block]:
    """One sentence for each kind of loss: traces that could not be read, that are cut off, that are damaged."""
    skipped = run.optional("skipped").sort("source", "reason")
    reason = pl.col("reason")
    cut = _sources(skipped.filter(reason.str.contains(_CUT)))
    damaged = [source for source in _sources(skipped.filter(reason.str.contains(_DAMAGED))) if source not in cut]
    unread = skipped.filter(reason.str.contains(_UNREAD) & ~reason.str.contains(NO_TRACE))
    windows = unread.filter(reason.str.contains(_WINDOW))
    return [
        *_not_read(run, unread.filter(~reason.str.contains(_WINDOW))),
        *_windows(windows),
        *_flawed(cut, "cut off"),
        *_left(run),
        *_flawed(damaged, "damaged"),
    ]


def _sources(skipped: pl.DataFrame) -> list[str]:
    return skipped["source"].unique(maintain_order=True).to_list()


def _not_read(run: Run, unread: pl.DataFrame) -> list[Block]:
    """Files of which nothing was read; a part of a file or run folder that was read otherwise is none."""
    processes = run.optional("processes")["source"].drop_nulls().unique()
    opened = [*processes, *run.optional("meta")["source"].drop_nulls().unique()]
    unread = unread.unique("source", keep="first", maintain_order=True)
    lost = [row for row in unread.iter_rows(named=True) if not any(_holds(row["source"], other) for other in opened)]
    if not lost or not opened:
        return []
    first = "" if len(lost) == 1 else "the first "
    why = literal(lost[0]["reason"].removesuffix(": not read"))
    text = f"{{}} of {{}} traces could not be read: {first}{_name(lost[0]['source'])}: {why}."
    return [Text(text, (Value(len(lost), "count"), Value(len(processes) + len(lost), "count")))]


def _holds(place: str, other: str) -> bool:
    return other == place or other.startswith(f"{place}/")


def _windows(unread: pl.DataFrame) -> list[Block]:
    if unread.is_empty():
        return []
    why = unread["reason"][0].removesuffix(": not read")
    text = f"{many(unread.height, 'traced window')} could not be read, the first: {literal(why)}."
    return [Text(text, (Value(unread.height, "count"),))]


def _flawed(sources: list[str], flaw: str) -> list[Block]:
    if not sources:
        return []
    if len(sources) == 1:
        return [Text(f"The trace {_name(sources[0])} is {flaw}: this report covers what could be read.")]
    text = f"{{}} traces are {flaw}, the first {_name(sources[0])}: this report covers what could be read."
    return [Text(text, (Value(len(sources), "count"),))]


def _left(run: Run) -> list[Block]:
    """How much of a window that is cut is there, and how many of its steps."""
    found = cuts(run)
    if not found:
        return []
    worst = min(found, key=lambda cut: (cut.until - cut.first) / max(1, cut.last - cut.first))
    text, values = "{} of {} is complete", [Value(worst.until - worst.first, "ns"),
                                                Value(worst.last - worst.first, "ns")]  # fmt: skip
    if worst.steps:
        text += f", with {{}} of {many(worst.steps, 'step')}"
        values += [Value(worst.whole, "count"), Value(worst.steps, "count")]
    return [Text(f"{text}.", tuple(values))]


def _name(source: str) -> str:
    return literal(PurePath(source).name or source)


def _damaged(run: Run) -> list[Block]:
    """If records of steps are damaged: which file, what could still be read, and what to do."""
    damaged = run.optional("meta").filter(pl.col("key") == "damaged")["value"].to_list()
    if not damaged:
        return []
    others, steps_left, samples = len(damaged) - 1, run.rows("steps"), run.rows("stacks")
    events = run.rows("host") + run.rows("device")
    told = [f"Damaged: {literal(damaged[0])}."]
    if others:
        told.append(f"{many(others, 'more file is', 'more files are')} damaged (see Skipped or repaired input).")
    read = ", ".join((many(steps_left, "timed step"), many(samples, "sample of lines", "samples of lines"),
                      many(events, "event of traced windows", "events of traced windows")))  # fmt: skip
    told.append(f"Still read: {read}.")
    told.append("Copy the run again from its source, or record it again: `stepscope run -- COMMAND`.")
    counts = (*([others] if others else []), steps_left, samples, events)
    return [Text(" ".join(told), tuple(Value(count, "count") for count in counts))]


SECTION = Section(title="Summary", order=0, build=build)
