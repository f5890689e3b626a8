"""Computing kernels, and which of them multiply or convolve float32 without tensor cores.

Names: cuBLAS and CUTLASS call products sgemm, ffma or `f32f32_f32f32_f32`; the TF32 variants of the same families say
tf32, s1688 or s16816 and are excluded. cuDNN has names of its own for convolutions, and calls cuBLAS for others: those
are told by the operator that launched them.
"""

import re

import polars as pl

from stepscope.analyses.lib.device_work import device_work
from stepscope.analyses.lib.kernel_figures import owner_names
from stepscope.analyses.lib.launch_calls import launches
from stepscope.core.kernels import name_test
from stepscope.core.run import Run

__all__ = ["convolves_fp32", "fp32_matmul_kernels", "fp32_work", "is_convolution", "multiplies_fp32"]

_FP32 = re.compile(r"sgemm|ffma|_f32f32_f32f32_f32|simt_sgemm", re.IGNORECASE)
_TENSOR = re.compile(r"tf32|s1688|s16816|tensorop", re.IGNORECASE)
_CONVOLVES = re.compile(
    r"implicit_convolve_sgemm|scudnn|gcgemm|(dgrad|wgrad)\w*_engine<float|winograd\w*<(\d, )?float|fft2d_\w+<float"
)
_CONVOLUTION = re.compile(r"conv(olution|\d?d|_depthwise)")  # of operators, forward and backward


def multiplies_fp32(name: str) -> bool:
    """Whether a kernel multiplies float32 matrices at full precision, as far as its name tells."""
    return _FP32.search(name) is not None and _TENSOR.search(name) is None


def convolves_fp32(name: str) -> bool:
    """Whether a kernel of cuDNN convolves float32 at full precision, as far as its name tells."""
    return _CONVOLVES.search(name) is not None and _TENSOR.search(name) is None


def is_convolution(operator: str) -> bool:
    """Whether an operator is a convolution, or its backward."""
    return _CONVOLUTION.search(operator) is not None


def fp32_matmul_kernels(run: Run) -> pl.DataFrame:
    """Computing kernels with `fp32_matmul` and `fp32_convolution`. Raises MissingData without device work."""
    return run.once(_work).filter(pl.col("role") == "compute")


def fp32_work(run: Run, column: str) -> pl.Series:
    """One of these two columns, for the rows of `device_work`."""
    return run.once(_work)[column]


def _work(run: Run) -> pl.DataFrame:
    found = launches(run)
    work = device_work(run, "name", "blocks_per_sm", "warps_per_sm", "occupancy")
    operators = owner_names(found.tree, found.operator)
    computes = work["role"] == "compute"
    multiplies = computes & name_test(work["name"], multiplies_fp32)
    convolves = computes & name_test(work["name"], convolves_fp32) | multiplies & name_test(operators, is_convolution)
    return work.with_columns(fp32_matmul=multiplies & ~convolves, fp32_convolution=convolves)
