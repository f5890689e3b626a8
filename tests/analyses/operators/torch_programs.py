"""Small programs of torch, what torch's own counter counts in them, and their traces."""

from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

__all__ = ["PROGRAMS", "Program", "attention", "attention_by_torch", "grouped", "of_torch", "write_trace"]

Program = Callable[[], object]
ATTENTION = (2, 4, 48, 32)


def random(*shape: int, grad: bool = True) -> torch.Tensor:
    return torch.randn(*shape, requires_grad=grad)


def backward(result: torch.Tensor) -> None:
    result.sum().backward()  # type: ignore[no-untyped-call]


def layers() -> None:
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 5, stride=2, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3, dilation=2),
        torch.nn.Flatten(), torch.nn.Linear(8 * 11 * 15, 10),
    )  # fmt: skip
    backward(model(random(4, 3, 32, 40, grad=False)))


def attention(*, causal: bool) -> None:
    q, k, v = (random(*ATTENTION) for _ in range(3))
    backward(F.scaled_dot_product_attention(q, k, v, is_causal=causal))


def grouped() -> None:
    backward(F.conv2d(random(2, 6, 20, 30), random(8, 3, 3, 3), groups=2))


PROGRAMS: dict[str, Program] = {
    "mm": lambda: backward(random(17, 33) @ random(33, 9)),
    "addmm": lambda: backward(torch.addmm(random(9), random(17, 33), random(33, 9))),
    "bmm": lambda: backward(torch.bmm(random(5, 17, 33), random(5, 33, 9))),
    "baddbmm": lambda: backward(torch.baddbmm(random(5, 17, 9), random(5, 17, 33), random(5, 33, 9))),
    "matmul of batches": lambda: backward(random(5, 1, 17, 33) @ random(3, 33, 9)),
    "linear": lambda: backward(F.linear(random(2, 17, 33), random(9, 33), random(9))),
    "conv1d": lambda: backward(F.conv1d(random(2, 6, 50), random(4, 6, 5), random(4), stride=3, padding=2)),
    "conv2d": lambda: backward(F.conv2d(random(2, 6, 20, 30), random(4, 6, 3, 5), stride=(2, 1), padding=(1, 2))),
    "conv2d without gradient of the input": lambda: backward(
        F.conv2d(random(2, 6, 20, 30, grad=False), random(4, 6, 3, 3))
    ),
    "conv3d": lambda: backward(F.conv3d(random(1, 3, 8, 9, 10), random(4, 3, 3, 3, 3), padding=1)),
    "transposed conv2d": lambda: backward(
        F.conv_transpose2d(random(2, 6, 10, 11), random(6, 4, 3, 3), stride=2, padding=1, output_padding=1)
    ),
    "layers": layers,
}


def write_trace(program: Program, path: Path) -> None:
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        program()
    profiler.export_chrome_trace(str(path))


def of_torch(program: Program) -> int:
    with FlopCounterMode(display=False) as counter:
        program()
    return int(counter.get_total_flops())


def attention_by_torch() -> int:
    """torch counts the kernels of GPUs only, by these functions, and takes all pairs as seen."""
    shape = ATTENTION
    forward: int = sdpa_flop_count(shape, shape, shape)  # type: ignore[no-untyped-call]
    back: int = sdpa_backward_flop_count(shape, shape, shape, shape)  # type: ignore[no-untyped-call]
    return forward + back
