"""What names of real kernels tell."""

import polars as pl
import pytest

from stepscope.core.kernels import is_communication, name_test, uses_tensor_cores


@pytest.mark.parametrize(
    "name",
    [
        "volta_fp16_s884cudnn_fp16_128x128_ldg8_relu_f2f_exp_small_nhwc_tn_v1",
        "turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn",
        "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn",
        "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_32x6_nt_align4>(cutlass_80_tensorop::Params)",
        "sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16_g1_tensor16x8x8",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_kernel__5x_cublas",
        "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NTT",
        "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>(Flash_fwd_params)",
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_3_64x128x64",
        "fmha_cutlassF_f16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel::Params)",
        "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT64x48x256_MI16x16x1_SN_LDSB1",
        "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt256x64x8_wt64x16x4",
        "_ZN2ck16tensor_operation6device12_GLOBAL__N_149kernel_grouped_conv_fwd_multiple_abd_xdl_cshuffleINS_34Gridwise",
        "void paged_attention_ll4mi_QKV_mfma16_kernel<0, __hip_bfloat16>",
    ],
)
def test_kernels_with_matrix_instructions(name: str) -> None:
    assert uses_tensor_cores(name)


@pytest.mark.parametrize(
    "name",
    [
        "volta_sgemm_128x32_nt",
        "cudnn_infer_volta_scudnn_128x64_3dconv_fprop_medium_nn_v1",
        "ampere_gcgemm_64x64_nt",
        "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna4_alignc4_execute_kernel",
        "void cutlass::Kernel<cutlass_80_simt_sgemm_128x128_8x4_tn_align1>(cutlass_80_simt_sgemm_128x128_8x4::Params)",
        "void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernel_32x32<float, float>(long, long)",
        "SubTensorOpWithCastTensor1d",
        "void pytorch_flash::flash_bwd_dot_do_o_kernel<true>(Flash_bwd_params)",
        "triton_poi_fused__unsafe_view_addmm_cat_clone_gelu_transpose_view_34",
        "MIOpenBatchNormFwdTrainSpatial",
    ],
)
def test_kernels_without(name: str) -> None:
    assert not uses_tensor_cores(name)


def test_communication_is_nccl_and_rccl_in_any_case() -> None:
    assert is_communication("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)")
    assert is_communication("void RCCL_kernel")
    assert not is_communication("void deep_ep::intranode::dispatch")


def test_name_test_asks_once_per_distinct_name() -> None:
    asked: list[str] = []

    def test(name: str) -> bool:
        asked.append(name)
        return name == "a"

    assert name_test(pl.Series(["a", "b", "a", None], dtype=pl.String), test).to_list() == [True, False, True, False]
    assert sorted(asked) == ["a", "b"]
