"""Calls on the host that a wrapper of the model makes in each step."""

from collections.abc import Callable, Iterator

from stepscope.analyses.host.lib.setting_places import setting_places
from stepscope.analyses.operators.lib.host_costs import HostCost
from stepscope.core.finding import Advice, Evidence, Finding, Gain, Title, Value
from stepscope.core.run import Run, chain

__all__ = ["wrapper_findings"]


def wrapper_findings(
    run: Run,
    compute: Callable[[Run], tuple[HostCost, ...]],
    least: float,
    words: str,
    *,
    labels: tuple[str, str],
    part: tuple[float, float],
    basis: str,
    advice: tuple[Advice, ...],
    setting: str,
) -> Iterator[Finding]:
    """A finding about the calls that `compute`, a function of a module, gives: of `least` of the step or more.

    `words` are of the title and have places for time and share, `labels` are of the time and of the calls per step.
    `part` of the time is saved at least and at most. `setting` matches the user's line that asks for the calls.
    """
    found = [cost for cost in run.per_rank(compute, chain) if cost.time >= least * cost.step > 0]
    if not found:
        return
    worst = max(found, key=lambda cost: cost.time / cost.step)
    share = worst.time / worst.step
    low, high = (int(min(one * worst.time, worst.step)) for one in part)
    yield Finding(
        title=Title(words, (Value(worst.time, "ns"), Value(share, "ratio"))),
        cause="configuration",
        evidence=(
            Evidence(label=labels[0], value=worst.time, unit="ns", source="operators", share=share),
            Evidence(label=labels[1], value=round(worst.calls), unit="count", source="operators"),
        ),
        gain=Gain(low_ns=low, high_ns=high, step_ns=int(worst.step), basis=basis, confidence="structural", pool="host"),
        advice=advice,
        ranks=tuple(cost.rank for cost in found),
        where=setting_places(run, setting, worst.rank),
    )
