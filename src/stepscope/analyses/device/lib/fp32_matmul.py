"""Computing kernels, and which of them multiply float32 matrices without tensor cores, by their names.

Names: cuBLAS and CUTLASS call them sgemm, ffma or `f32f32_f32f32_f32`; the TF32 variants of the same families say tf32,
s1688 or s16816 and are excluded.
"""

import re

import polars as pl

from stepscope.analyses.lib.device_work import device_work
from stepscope.core.kernels import name_test
from stepscope.core.run import Run

__all__ = ["fp32_matmul_kernels", "multiplies_fp32"]

_FP32 = re.compile(r"sgemm|ffma|_f32f32_f32f32_f32|simt_sgemm", re.IGNORECASE)
_TENSOR = re.compile(r"tf32|s1688|s16816|tensorop", re.IGNORECASE)


def multiplies_fp32(name: str) -> bool:
    """Whether a kernel multiplies float32 matrices at full precision, as far as its name tells."""
    return _FP32.search(name) is not None and _TENSOR.search(name) is None


def fp32_matmul_kernels(run: Run) -> pl.DataFrame:
    """Computing kernels with `fp32_matmul`. Raises MissingData without device work."""
    return run.once(_kernels)


def _kernels(run: Run) -> pl.DataFrame:
    work = device_work(run, "name", "blocks_per_sm", "warps_per_sm", "occupancy")
    kernels = work.filter(pl.col("role") == "compute")
    return kernels.with_columns(fp32_matmul=name_test(kernels["name"], multiplies_fp32))
