"""Names in few cells."""

import pytest

from stepscope.render.names import abbreviated, told_apart

ELEMENTWISE = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >"
    "(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)"
)
TENSILE = "Cijk_Alik_Bljk_B_BS_BH_Bias_HA_S_SAV_UserArgs_MT256x128x64_MI16x16x1_SN_LDSB1_AFC1_AFEM1_AFEM1_ASEM1"
MODULE = "Qwen2Model_0.Qwen2DecoderLayer_0.Qwen2Attention_0.Linear_3"
FILE = "/usr/lib/python3/site-packages/torch/nn/modules/module.py"


@pytest.mark.parametrize(
    ("name", "cells", "short"),
    [
        ("aten::add", 20, "aten::add"),
        (ELEMENTWISE, 80, "vectorized_elementwise_kernel<4, CUDAFunctor_add<float>, array<char*, 3ul> >(…)"),
        (ELEMENTWISE, 68, "vectorized_elementwise_kernel<4, CUDAFunctor_add<…>, array<…> >(…)"),
        (ELEMENTWISE, 40, "vectorized_ele…kernel<…CUDAFunctor_add…>"),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 45,
         "ncclDevKernel_AllReduce_Sum_f32_RING_LL(…)"),
        ("autograd::engine::evaluate_function: MulBackward0", 40, "evaluate_function: MulBackward0"),
        (TENSILE, 60, "Cijk_Alik_Bljk…MT256x128x64_MI16x16x1_SN_LDSB1_AFC1_AFEM1_A…"),
        (TENSILE, 22, "Cijk…MT256x128x64_MI1…"),
        (MODULE, 45, "Qwen2Model_0…Qwen2Attention_0.Linear_3"),
        (MODULE, 30, "Qwen2Model_0…Linear_3"),
        ("Qwen2Model_0.Qwen2RotaryEmbedding_0", 24, "…Qwen2RotaryEmbedding_0"),
        ("torch/nn/modules/container.py(420): extend", 30, "…/container.py(420): extend"),
        ("torch/nn/modules/container.py(420): extend", 20, "container.py(420): …"),
        ("/traces/tracelens/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz", 24, "Qwen_Qwen1.5-0.5…json.gz"),
        (FILE, 30, "…/torch/nn/modules/module.py"),
        ("sm90_xmma_gemm_bf16bf16_tn_n_kernel__5x_cublas", 30, "sm90_xmma_gemm_bf16b…5x_cublas"),
    ],
)  # fmt: skip
def test_what_tells_names_apart_stays(name: str, cells: int, short: str) -> None:
    assert abbreviated(name, cells) == short


@pytest.mark.parametrize("name", [ELEMENTWISE, TENSILE, MODULE, FILE, "::", "<<<<<" * 9, "a" * 50, "." * 50, "x(" * 30])
def test_no_name_is_longer_than_its_room(name: str) -> None:
    for cells in range(1, 130):
        assert len(abbreviated(name, cells)) <= cells


def test_names_that_would_look_alike_end_with_what_differs() -> None:
    first, second = (f"{TENSILE}_CLR1_CADS0_{part}_NTB0_NTC0_PGR2" for part in ("NTA0", "NTA4"))
    assert told_apart([first, second, first, "aten::add"], 60) == {
        first: "Cijk_Alik_Bljk…MT256x128x64_MI16x16x1_SN_LDS…NTA0_NTB0_NTC0",
        second: "Cijk_Alik_Bljk…MT256x128x64_MI16x16x1_SN_LDS…NTA4_NTB0_NTC0",
        "aten::add": "aten::add",
    }
    shorter = f"{first}_SIA3"
    assert told_apart([first, shorter], 60)[shorter].endswith("…PGR2_SIA3")
