"""Every launch waits until its kernel has ended: CUDA_LAUNCH_BLOCKING is set.

## What it finds
Devices for which 95 % of the launches end after the kernels that they launched, with kernels of 5 µs or more and a
hundred per step. That is what `CUDA_LAUNCH_BLOCKING=1`, `AMD_SERIALIZE_KERNEL` or a sanitizer do (catalogue: B10).

## Why it costs time
The host normally runs ahead while the device works through its queue. Here it prepares the next kernel only when the
device has become idle.

## What to do
Remove the variable from the environment of the job. It is for finding the kernel that fails, for one run.

## How the gain is predicted
High end: the idle time of the device, or the time that the host waits in launches, whichever is less: the step cannot
become shorter than its device work or its Python. Low end: half of it.

## When it is wrong
A trace by a profiler that serializes kernels itself looks the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from stepscope.analyses.bound.lib.device_shares import DeviceIdle, device_idle
from stepscope.analyses.host.lib.setting_places import setting_places
from stepscope.analyses.lib.launch_calls import launches
from stepscope.analyses.lib.sample_work import need_gpu
from stepscope.core.finding import Advice, Evidence, Finding, Gain, Rule, Title, Value
from stepscope.core.run import Run, chain
from stepscope.core.synth import Synth
from stepscope.models.idle_meanwhile import of_device

__all__ = ["RULE"]

MIN_SHARE = 0.05  # of the step: a smaller gain drowns in the noise between two runs
NEARLY_ALL = 0.95  # of the launches: a few always end late, where the host was interrupted
LONG_ENOUGH = 5_000  # ns: a shorter kernel may end within the call that launched it
FEWEST = 100  # kernels per step that tell
_VARIABLE = "CUDA_LAUNCH_BLOCKING"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Blocked:
    share: float  # of the launches
    waits: float  # ns per step in which a launch waits for its kernel
    device: DeviceIdle

    @property
    def saved(self) -> float:
        """No more than the device idles, or the host waits."""
        return min(self.waits, max(self.device.step * (1 - self.device.utilization) - self.device.input, 0.0))


def check(run: Run) -> Iterator[Finding]:
    need_gpu(run)
    found = [one for one in run.per_rank(_blocked, chain) if one.saved > MIN_SHARE * one.device.step]
    if not found:
        return
    worst = max(found, key=lambda one: one.saved / one.device.step)
    yield Finding(
        title=Title(
            "{} of the launches wait for their kernel: {} per step",
            (Value(worst.share, "ratio"), Value(worst.waits, "ns")),
        ),
        cause="configuration",
        evidence=(
            Evidence(label="waiting launches", value=worst.share, unit="ratio", source="launches"),
            Evidence(
                label="launches wait per step",
                value=worst.waits,
                unit="ns",
                source="launches",
                share=worst.waits / worst.device.step,
            ),
        ),
        gain=Gain(
            low_ns=int(worst.saved / 2),
            high_ns=int(worst.saved),
            step_ns=int(worst.device.step),
            basis="waits in launches, as far as the device idles",
            confidence="structural",
            pool="host",
        ),
        advice=(Advice(text="Unset CUDA_LAUNCH_BLOCKING", code="unset CUDA_LAUNCH_BLOCKING", language="shell"),),
        ranks=tuple(sorted(one.device.rank for one in found)),
        where=setting_places(run, _VARIABLE, worst.device.rank),
        replaces=("host-bound", "blocking-sync"),
    )


def _blocked(run: Run) -> tuple[_Blocked, ...]:
    found = launches(run)
    if found.tree is None:
        return ()
    work = found.work.with_columns(call=pl.Series(found.call), length=pl.col("end") - pl.col("start"))
    kernels = work.filter((pl.col("kind") == "kernel") & (pl.col("call") >= 0) & (pl.col("length") >= LONG_ENOUGH))
    waited = found.tree.frame["end"].gather(kernels["call"]) >= kernels["end"]
    rows = []
    for row in device_idle(run):
        own = kernels.with_columns(waited=waited).filter(of_device(row))
        count = row.per_step(own["start"].to_numpy())
        share, length = own.select(pl.col("waited", "length").mean()).row(0)
        if count >= FEWEST and share >= NEARLY_ALL:
            rows.append(_Blocked(share=share, waits=count * length, device=row))
    return tuple(rows)


def example(synth: Synth, fixed: bool) -> None:
    kernel, python, first = 0.5, 0.15, 5.0
    each = kernel if fixed else kernel + python
    length = 100 * each + (first if fixed else 0)
    for step in range(4):
        start = step * length
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + length)
        for number in range(100):
            begin, correlation = start + number * each, step * 100 + number + 1
            call, work = (begin, begin + first) if fixed else (begin + python - 0.01, begin + python)
            end = call + 0.01 if fixed else work + kernel
            synth.host("cudaLaunchKernel", "runtime", call, end, correlation=correlation)
            synth.kernel(work, work + kernel, correlation=correlation)


RULE = Rule(check=check, example=example)
