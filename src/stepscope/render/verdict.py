"""The verdict in words."""

from stepscope.core.plural import plural
from stepscope.core.report import WORTH_TELLING, Verdict
from stepscope.render.format import plain, quantity

__all__ = ["sentence"]

_FEW_STEPS = 10  # one step of fewer, twice as long as the others, moves the mean by more than a tenth
_RANKS_NAMED = 8  # one common machine; more are a number
_MOST = 0.5  # of the step: a limit that holds less of it is told as a part
_AS_A_LIMIT = 0.1  # of the step: what limits a step takes as much of it
_WORTH_A_RANGE = 0.02  # of the step: two runs differ by as much
_BOUNDS = {
    "input": "Data-loading bound",
    "host": "Host-bound",
    "device": "Compute-bound",
    "communication": "Communication-bound",
    "memory": "Copy-bound",
    "balanced": "Balanced",
}


def sentence(verdict: Verdict) -> str:
    """The verdict in words: `Data-loading bound: 63 % of each 41.2 ms step waits for data.`

    It says for which ranks it holds, if there are several, and on how few steps it rests.
    """
    if verdict.bound == "unknown":
        why = plain(verdict.why_unknown or "the run does not say where its time goes", limit=400).removesuffix(".")
        return f"Unknown: {why}."
    of_step = _of_step(verdict)
    share = f"{_share(verdict)} of {of_step}" if verdict.share is not None else f"most of {of_step}"
    likely = ", likely" if verdict.likely else ""
    bound = f"{_partly(verdict)}{likely}{_on_ranks(verdict)}{_of_world(verdict)}"
    if verdict.bound == "device" and verdict.on_cpu:
        bound += " (CPU)"
    if verdict.late:
        bound += ", which the other waits for" if verdict.of_ranks == 2 else ", which the others wait for"
    whose = f" (figures of rank {verdict.rank})" if len(verdict.ranks) > 1 and verdict.rank is not None else ""
    more = f"{_unexplained(verdict, of_step)}{_longest_gaps(verdict)}{_caution(verdict.steps)}"
    return f"{bound}: {_limit(verdict, share, of_step)}{whose}.{more}"


def _partly(verdict: Verdict) -> str:
    """`Host-bound`; `Partly host-bound` where most of the step is something else."""
    name = _BOUNDS[verdict.bound]
    if verdict.share is None or verdict.share >= _MOST or verdict.bound in ("device", "balanced"):
        return name
    return f"Partly {name[0].lower()}{name[1:]}"


def _limit(verdict: Verdict, share: str, of_step: str) -> str:
    """What happens in the share of the step."""
    match verdict.bound:
        case "input" if verdict.core_wait >= WORTH_TELLING:
            return f"{share} waits for data, {quantity(verdict.core_wait, 'ratio')} for CPU cores busy with workers"
        case "input":
            return f"{share} waits for data"
        case "host" if verdict.on_cpu:
            return f"Python and file I/O take {share}"
        case "host":
            return f"the device idles {share} waiting for the host"
        case "device" if verdict.core_wait:
            return f"operators compute {share} and wait {quantity(verdict.core_wait, 'ratio')} for a CPU core"
        case "device" if verdict.unexplained >= _AS_A_LIMIT:
            of_explained = (verdict.share or 0.0) / (1 - verdict.unexplained)
            return f"kernels take {quantity(of_explained, 'ratio')} of the time that the trace explains"
        case "device":
            return f"{'operators' if verdict.on_cpu else 'kernels'} take {share}"
        case "communication":
            return f"exposed communication takes {share}"
        case "memory":
            return f"exposed copies and memsets take {share}"
        case _:
            return f"nothing alone limits {of_step}"


def _of_step(verdict: Verdict) -> str:
    if not verdict.step_ns:
        return "each step"
    length = quantity(verdict.step_ns, "ns")
    if verdict.steps == 0:
        return f"the {length} from first to last {'operator' if verdict.on_cpu else 'device work'}"
    return f"{'one' if verdict.steps == 1 else 'each'} {length} step"


def _on_ranks(verdict: Verdict) -> str:
    """` on rank 1 of 2 ranks`, or nothing if there is one rank."""
    ranks, of = verdict.ranks, verdict.of_ranks
    if of <= 1 or not ranks:
        return ""
    if len(ranks) == of:
        return " on both ranks" if of == 2 else f" on all {of} ranks"
    if len(ranks) > _RANKS_NAMED:
        return f" on {len(ranks)} of {of} ranks"
    return f" on rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))} of {of} ranks"


def _of_world(verdict: Verdict) -> str:
    """` (2 of 128 ranks opened)`, or nothing if all were."""
    if not verdict.opened or verdict.opened >= verdict.world_size:
        return ""
    return f" ({quantity(verdict.opened, 'count')} of {quantity(verdict.world_size, 'count')} ranks opened)"


def _share(verdict: Verdict) -> str:
    """`27 %`, or `27 % (16–27 % without the profiler's cost)` where it makes a difference; no waits for cores."""
    recorded, without = (verdict.share or 0.0) - verdict.core_wait, verdict.share_unrecorded
    share, other = quantity(recorded, "ratio"), quantity(without, "ratio")
    if without is None or abs(without - recorded) < _WORTH_A_RANGE:
        return share
    if without > recorded:  # of a shorter step
        return f"{share} (up to {other} without the profiler's cost)"
    return f"{share} ({other.removesuffix(' %')}–{share} without the profiler's cost)"


def _unexplained(verdict: Verdict, of_step: str) -> str:
    """Idle time that is nobody's, where it is as much as a limit."""
    if verdict.unexplained < _AS_A_LIMIT:
        return ""
    share = quantity(verdict.unexplained, "ratio")
    if verdict.bound == "device":  # its share is not of the step
        return f" The device idles {share} of {of_step} for a reason not in the trace."
    return f" The device idles {share} of the step for a reason not in the trace."


def _longest_gaps(verdict: Verdict) -> str:
    """What the host did in each: ` Longest gaps: 10 s in cudaFree, 1.04 s in cudaMalloc.`"""
    gaps = ", ".join(f"{quantity(time, 'ns')} in {plain(doing) or 'no recorded call'}" for time, doing in verdict.gaps)
    return f" Longest {plural(len(verdict.gaps), 'gap')}: {gaps}." if gaps else ""


def _caution(steps: int | None) -> str:
    """On how few steps a verdict rests."""
    if steps is None or steps >= _FEW_STEPS:
        return ""
    if steps == 0:
        return " No steps are marked."
    return "" if steps == 1 else f" From {steps} steps only."
