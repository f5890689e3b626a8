"""One step as a bar: the step of the verdict, on the verdict's rank and clock.

Where a device computes, the parts are what it does: a phase of the training process says little about it, as the
device works on while the host goes ahead. Elsewhere they are the phases of the training process, or what it does,
where the verdict names a share of that which no sum of phases is. Communication on the CPU lies within phases: where
it is the limit, it is told from all else.
"""

import polars as pl

from stepscope.analyses.bound.bound import bound
from stepscope.analyses.lib.sample_work import has_gpu
from stepscope.analyses.steps.steady_steps import steady_steps
from stepscope.core.errors import MissingData
from stepscope.core.report import WORTH_TELLING, Bar, Bars, Block, Text, Value, Verdict
from stepscope.core.run import Run
from stepscope.report.diagnose import diagnose

__all__ = ["PHASES", "of_communication", "step_bar", "two_clocks"]

_OF_DEVICE = {"input": "data wait", "device": "kernels", "communication": "communication", "memory": "copies"}
_IDLE = "device idle"
_OF_HOST = {
    "input": "data wait", "device": "operators", "host": "Python and file I/O", "communication": "communication",
}  # fmt: skip
_CORE_WAIT = "waiting for a core"
_ALIKE = 0.01  # of the step: phases that add up to the headline say more than what they consist of
_SHOWN = 0.0005  # of the step: less would be shown as nothing
PHASES = {
    "data_wait": "data wait",
    "forward": "forward",
    "backward": "backward",
    "optimizer": "optimizer",
    "other": "other",
}
_APART = 0.005  # of the step: less does not show in three digits


def step_bar(run: Run) -> list[Block]:
    """The bar; nothing where the run does not tell where a step goes."""
    verdict = diagnose(run).verdict
    parts = _of_device(run, verdict) or _of_host(run, verdict) or of_communication(verdict) or _of_phases(run, verdict)
    if not parts:
        return []
    if verdict.steps == 0:
        return [Bars(f"From first to last {'operator' if verdict.on_cpu else 'device work'}", "ns", parts)]
    rank = f" of rank {verdict.rank}" if verdict.of_ranks > 1 and verdict.rank is not None else ""
    return [Bars(f"One step{rank}, mean", "ns", parts)]


def _of_device(run: Run, verdict: Verdict) -> tuple[Bar, ...]:
    """What the device does; what is left of the step it idles."""
    if not has_gpu(run) or not verdict.step_ns:
        return ()
    try:
        row = bound(run).filter(pl.col("rank") == verdict.rank).row(0, named=True)
    except MissingData:
        return ()
    if row["device"] is None or row["communication"] is None:
        return ()  # no window of the device: the shares are of the training process
    shares = {label: row[name] or 0.0 for name, label in _OF_DEVICE.items()}
    shares[_IDLE] = max(0.0, 1.0 - sum(shares.values()))
    return tuple(Bar(label, share * verdict.step_ns) for label, share in shares.items() if share)


def of_communication(verdict: Verdict) -> tuple[Bar, ...]:
    """Communication as the limit of a step, and the rest of it."""
    if verdict.bound != "communication" or verdict.share is None or not verdict.step_ns:
        return ()
    own = verdict.share * verdict.step_ns
    return (Bar(_OF_DEVICE["communication"], own), Bar(PHASES["other"], verdict.step_ns - own))


def _of_host(run: Run, verdict: Verdict) -> tuple[Bar, ...]:
    """What the training process does, where the headline names a share of it that no sum of phases is."""
    told = verdict.bound in ("host", "device", "communication") or verdict.core_wait >= WORTH_TELLING
    if not told or verdict.share is None or not verdict.step_ns:
        return ()
    phases = {bar.label: bar.value for bar in _of_phases(run, verdict)}
    computing = sum(phases.get(name, 0.0) for name in ("forward", "backward", "optimizer"))
    if (
        verdict.bound == "device"
        and not verdict.core_wait
        and abs(computing / verdict.step_ns - verdict.share) < _ALIKE
    ):
        return ()
    row = bound(run).filter(pl.col("rank") == verdict.rank).row(0, named=True)
    if row["device"] is None:
        return ()
    shares = {label: row[name] or 0.0 for name, label in _OF_HOST.items()}
    if verdict.bound in ("input", "device") and verdict.core_wait:
        shares[_OF_HOST[verdict.bound]] -= verdict.core_wait
        shares[_CORE_WAIT] = verdict.core_wait
    shares[PHASES["other"]] = max(0.0, 1.0 - sum(shares.values()))
    return tuple(Bar(label, share * verdict.step_ns) for label, share in shares.items() if share >= _SHOWN)


def _of_phases(run: Run, verdict: Verdict) -> tuple[Bar, ...]:
    """The phases; of a step without backward and optimizer the trace tells none."""
    try:
        steady = steady_steps(run)
    except MissingData:
        return ()
    mine = steady if verdict.rank is None else steady.filter(pl.col("rank") == verdict.rank)
    means = mine.select(pl.col(list(PHASES)).mean()).row(0, named=True)
    if means["forward"] is None:
        return ()
    return tuple(Bar(label, means[name]) for name, label in PHASES.items() if means[name] is not None)


def two_clocks(run: Run) -> list[Block]:
    """Where the device decides and its step is another than that of the training process: which is which."""
    verdict = diagnose(run).verdict
    if verdict.on_cpu or not verdict.step_ns:
        return []
    try:
        steady = steady_steps(run)
    except MissingData:
        return []
    step = steady.filter(pl.col("rank") == verdict.rank)["duration"].mean()
    if not isinstance(step, int | float) or abs(verdict.step_ns - step) <= _APART * step:
        return []
    told = "The mean step is {} on the device (verdict, bar and findings), {} on the host."
    return [Text(told, (Value(verdict.step_ns, "ns"), Value(step, "ns")))]
