"""A network of two linear layers on a GPU, whose modules' times are known."""

from typing import Any

from stepscope.core.synth import Synth

EVALUATE = "autograd::engine::evaluate_function: "
ACCUMULATE = EVALUATE + "torch::autograd::AccumulateGrad"


def frame(synth: Synth, name: str, number: int, start: float, end: float, **columns: Any) -> Synth:
    """The Python frame of a module call."""
    return synth.host(f"nn.Module: {name}_{number}", "python", start, end, module_id=number, **columns)


def launch(
    synth: Synth, at: float, correlation: int, start: float, end: float, name: str, *, thread: str = "1", rank: int = 0
) -> None:
    """A launch of 1 ms and its kernel."""
    synth.host("cudaLaunchKernel", "runtime", at, at + 1, thread=thread, correlation=correlation, rank=rank)
    synth.kernel(start, end, name, correlation=correlation, rank=rank)


def two_layers(synth: Synth, *, at: float = 0, sequence: int = 5, rank: int = 0, device: bool = True) -> Synth:
    """A step of 100 ms: forward 10-40 with a layer at 12-24 and one at 26-38, loss 45-48, backward 50-80 on thread 2.

    Kernels take 10 and 15 ms in forward, 2 in the loss; in backward 11 of the second and 15 of the first layer.
    """
    t, s, c = at, sequence, 10 * sequence
    synth.host("ProfilerStep#" + str(s), "annotation", t, t + 100, rank=rank)
    synth.host("train.py(3): main", "python", t, t + 99, rank=rank)
    frame(synth, "Net", 0, t + 10, t + 40, rank=rank)
    frame(synth, "Linear", 0, t + 12, t + 24, rank=rank)
    frame(synth, "Linear", 1, t + 26, t + 38, rank=rank)
    forwards = ((14, 22, "aten::linear"), (28, 36, "aten::linear"), (45, 48, "aten::mse_loss"))
    for n, (start, end, name) in enumerate(forwards):
        synth.host(name, "operator", t + start, t + end, sequence=s + n, forward_thread=0, rank=rank)
    synth.host("aten::addmm", "operator", t + 15, t + 20, sequence=s, forward_thread=0, rank=rank)
    backwards = ((50, 54, "MseLossBackward0", 2), (55, 65, "AddmmBackward0", 1), (70, 80, "AddmmBackward0", 0))
    for start, end, name, n in backwards:
        for margin, prefix in ((0, EVALUATE), (0.5, "")):
            synth.host(
                prefix + name, "operator", t + start + margin, t + end - margin, thread="2", sequence=s + n,
                forward_thread=1, rank=rank,
            )  # fmt: skip
    synth.host(ACCUMULATE, "operator", t + 66, t + 69, thread="2", rank=rank)
    if device:
        launch(synth, t + 16, c, t + 20, t + 30, "gemm", rank=rank)
        launch(synth, t + 29, c + 1, t + 30, t + 45, "gemm", rank=rank)
        launch(synth, t + 46, c + 2, t + 46, t + 48, "mse", rank=rank)
        launch(synth, t + 57, c + 3, t + 60, t + 70, "gemm", thread="2", rank=rank)
        launch(synth, t + 67, c + 4, t + 72, t + 73, "add", thread="2", rank=rank)
        launch(synth, t + 71, c + 5, t + 75, t + 90, "gemm", thread="2", rank=rank)
    return synth
