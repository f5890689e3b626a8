"""Small runs to compare: a loop with noise, a probe's or a trace's steps, on a CPU or a GPU."""

import numpy as np

from stepscope.compare.comparison import Comparison, compare
from stepscope.compare.run_summary import measure
from stepscope.core.run import Run
from stepscope.core.synth import Synth

__all__ = ["compared", "looped", "traced"]


def looped(
    step: float = 40, *, steps: int = 60, wait: float = 10, noise: float = 0.02, seed: int = 1,
    samples: int | None = 32, at: float = 0, drift: float = 0, rank: int = 0, synth: Synth | None = None,
) -> Synth:  # fmt: skip
    """Steps of the probe; three are warm-up. What is not data wait is a quarter each of the other phases."""
    synth, random = synth or Synth(), np.random.default_rng(seed)
    for number in range(steps):
        length = round(step * (1 + noise * random.standard_normal()) * (1 + drift * number / steps), 6)  # whole ns
        rest = round((length - wait) / 4, 6)
        synth.step(
            number, at, at + length, data_wait=wait, forward=rest, backward=rest, optimizer=rest, samples=samples,
            rank=rank,
        )  # fmt: skip
        at = round(at + length, 6)
    return synth


def traced(
    steps: int = 3, *, kernel: str = "ampere_sgemm_128x64_tn", time: float = 20, at: float = 0, extra: bool = False,
    device: str = "NVIDIA A100", rank: int = 0, marks: bool = True,
) -> Synth:  # fmt: skip
    """Steps of 40 ms in a trace: an operator, its kernel of `time` ms, and where `extra`, a second operator."""
    synth = Synth()
    for number in range(steps):
        t, c = at + 40 * number, 10 * number
        if marks:
            synth.host(f"ProfilerStep#{number}", "annotation", t, t + 40, rank=rank)
        synth.host("aten::mm", "operator", t + 1, t + 3, rank=rank)
        synth.host("cudaLaunchKernel", "runtime", t + 1, t + 2, correlation=c + 1, rank=rank)
        synth.kernel(t + 3, t + 3 + time, kernel, correlation=c + 1, rank=rank)
        if extra:
            synth.host("aten::relu", "operator", t + 4, t + 6, rank=rank)
            synth.host("cudaLaunchKernel", "runtime", t + 4, t + 5, correlation=c + 2, rank=rank)
            synth.kernel(t + 3 + time, t + 8 + time, "relu_kernel<float>", correlation=c + 2, rank=rank)
    synth.add("devices", rank=rank, device=0, name=device)
    return synth


def compared(a: Synth | Run, b: Synth | Run) -> Comparison:
    """Both runs, compared."""
    first, second = (measure(run if isinstance(run, Run) else run.run()) for run in (a, b))
    return compare(first, second)
