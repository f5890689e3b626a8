"""What names of real kernels and operators tell of tensor and matrix cores."""

import re

import pytest

from stepscope.core.tensor_cores import Family, could_use_tensor_cores, families, uses_tensor_cores

ALL = [family for group in families().values() for family in group]
each_family = pytest.mark.parametrize("family", ALL, ids=[family.name for family in ALL])


@each_family
def test_examples_are_found_by_their_own_family(family: Family) -> None:
    match = re.fullmatch if family.name == "operators" else re.search
    for example in family.examples:
        assert any(match(pattern, example) for pattern in family.patterns), example


@each_family
def test_every_pattern_has_an_example(family: Family) -> None:
    match = re.fullmatch if family.name == "operators" else re.search
    for pattern in family.patterns:
        assert any(match(pattern, example) for example in family.examples), pattern


def test_the_examples_get_the_answer_of_their_part() -> None:
    told = families()
    assert all(uses_tensor_cores(example) for family in told["kernels"] for example in family.examples)
    assert not any(uses_tensor_cores(example) for family in told["scalar"] for example in family.examples)
    assert all(could_use_tensor_cores(example) for family in told["operators"] for example in family.examples)


@pytest.mark.parametrize(
    "name",
    [
        "volta_sgemm_128x32_nt",
        "cudnn_infer_volta_scudnn_128x64_3dconv_fprop_medium_nn_v1",
        "ampere_gcgemm_64x64_nt",
        "void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernel_32x32<float, float>(long, long)",
        "SubTensorOpWithCastTensor1d",
        "void pytorch_flash::flash_bwd_dot_do_o_kernel<true>(Flash_bwd_params)",
        "void flashinfer::BatchDecodeWithPagedKVCacheKernel<(flashinfer::PosEncodingMode)0>(Params)",
        "void deep_gemm::transpose_fp32<512u, 64u, 36u>(float const*, float*, unsigned int)",
        "void deep_ep::internode::dispatch<true, 4, 512>()",
        "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16>(cublasLt::cublasSplitKParams<float>)",
        "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, __nv_bfloat16>(cublasGemvParamsEx)",
        "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false>(cublasGemvParamsEx)",
        "Cijk_Ailk_Bljk_SB_MT16x16x16_SE_AF0EM1_AMAS2_ASEM1_BL0_DTL0_EPS0_FL0_GRVW2_GSU1_ISA000",
        "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16ELb1ELb0ELb1ELi1EEEvPT0_",
        "void prolog_mod_dfma<oz2_int8_dgemm>(double const*)",
        "triton_poi_fused__unsafe_view_addmm_cat_clone_gelu_transpose_view_34",
        "void summary_kernel(float*)",
        "MIOpenBatchNormFwdTrainSpatial",
        "void at::native::conv_depthwise2d_forward_kernel<1, float, int>(float const*)",
    ],
)
def test_kernels_without_matrix_instructions(name: str) -> None:
    assert not uses_tensor_cores(name)


@pytest.mark.parametrize(
    "name", ["aten::add", "aten::prelu", "aten::addr", "aten::cudnn_batch_norm", "aten::mm_out_of_place", "aten::mul"]
)
def test_operators_that_multiply_no_matrices(name: str) -> None:
    assert not could_use_tensor_cores(name)


MULTIPLY = """
    aten::_convolution aten::conv1d aten::conv2d aten::conv3d aten::conv_tbc aten::conv_transpose1d aten::convolution
    aten::conv_transpose2d aten::conv_transpose3d aten::cudnn_convolution aten::cudnn_convolution_transpose aten::addmm
    aten::addmv aten::matmul aten::mm aten::mv aten::linear aten::addbmm aten::baddbmm aten::bmm aten::chain_matmul
    aten::linalg_multi_dot aten::lstm_cell aten::gru_cell aten::rnn_tanh_cell aten::rnn_relu_cell aten::thnn_conv2d
    aten::slow_conv3d aten::miopen_convolution aten::_int_mm aten::_grouped_mm aten::_efficient_attention_forward
    aten::_scaled_dot_product_cudnn_attention aten::_flash_attention_backward aten::linear_backward
    aten::_sparse_semi_structured_addmm _C::cutlass_scaled_mm flash_attn::_flash_attn_forward aten::einsum
"""


@pytest.mark.parametrize("name", MULTIPLY.split())
def test_operators_that_multiply_matrices(name: str) -> None:
    """Those that the TensorBoard plugin calls eligible, but for some that multiply none, and what came after it."""
    assert could_use_tensor_cores(name)
