"""What the name of a kernel tells: whether it communicates, and whether it uses tensor or matrix cores.

The tensor core table follows the names that the vendors' libraries give their kernels, from Volta to Blackwell and
CDNA. A name that tells nothing (most Triton kernels) counts as "does not use them", so shares are lower bounds.
"""

import re
from collections.abc import Callable

import polars as pl

__all__ = ["is_communication", "name_test", "uses_tensor_cores"]

_COMMUNICATION = re.compile(r"nccl|rccl", re.IGNORECASE)

# Matrix instructions and the kernels built on them, by the names of cuBLAS, cuDNN, CUTLASS and flash attention, and of
# Tensile, Composable Kernel, MIOpen, AITER (AMD). Where a library uses one prefix for both kinds, _SCALAR takes the
# kernels with plain arithmetic out again.
_TENSOR_CORES = re.compile(
    "|".join(
        (
            r"[hsci](?:884|1688|8816|16816|16832)(?!\d)",  # shapes of the instruction: Volta, Turing, Ampere
            r"(?<!\d)16816(?!\d)",
            r"hmma|imma_|(?<![A-Za-z])tensorop|tensor\d+x\d+x\d+|mma_sync|wmma",
            r"wgmma|gmma|warpgroupsize|tcgen05|utcmma|nvjet",  # Hopper and Blackwell
            r"xmma_(?:gemm|sparse_gemm|sparse_conv|warp_specialized_implicit_gemm|implicit_gemm|fprop|dgrad|wgrad)",
            r"dgrad_1x1_stride_2x2|first_layer_wgrad_kernel|conv2d_c1_k1|direct_group",  # cuDNN, half precision only
            r"flash_fwd_(?:splitkv_)?kernel|flash_bwd_dq_dk_dv|FlashAttn(?:Fwd|Bwd)Sm|sm\d+_flash|fmha_v2",
            r"fmha_cutlass[FB]_b?f16_|fmha_cutlass[FB]_f32_\w*sm80",  # float32 as TF32 from Ampere on
            r"mfma|xdl(?:ops)?(?![a-z])|_MI\d+x\d+x\d+|igemm_(?:fwd|bwd|wrw)_gtcx",  # CDNA
            r"ck_tile::Fmha(?:Fwd|BwdDQDKDV)|FmhaFwdKernel|FmhaBwdDQDKDV|aiter::fmha|\battn_fwd\b",
        )
    )
)
_SCALAR = re.compile(r"ffma|simt")


def is_communication(name: str) -> bool:
    """Whether a kernel belongs to NCCL or RCCL, by its name alone."""
    return _COMMUNICATION.search(name) is not None


def uses_tensor_cores(name: str) -> bool:
    """Whether a kernel uses tensor cores (NVIDIA) or matrix cores (AMD), as far as its name tells."""
    return _TENSOR_CORES.search(name) is not None and _SCALAR.search(name) is None


def name_test(names: pl.Series, test: Callable[[str], bool]) -> pl.Series:
    """Return `test(name)` for each name, asking once per distinct name."""
    distinct = names.drop_nulls().unique()
    passed = [name for name in distinct.to_list() if test(name)]
    return names.is_in(passed).fill_null(False)
