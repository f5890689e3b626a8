"""Names of kernels from traces of NVIDIA and AMD: what they compute, and what is alike on both."""

import pytest

from stepscope.compare.names import call_name, kind_of_kernel, short_name


@pytest.mark.parametrize(
    ("name", "operator", "kind"),
    [
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)", None, "communication"),
        ("ampere_sgemm_128x64_tn", None, "GEMM"),
        ("Cijk_Ailk_Bljk_BBS_BH_MT128x128x16_MI32x32x8x1_SN", None, "GEMM"),
        ("nvjet_hsh_128x64_64x8_2x1_v_bz_TNT", None, "GEMM"),
        ("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x64_16x6_nn_align4>(Params)", None, "GEMM"),
        ("sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x16", None, "convolution"),
        ("miopenSp3AsmConv_v21_1_2_gfx9_fp32_stride1", None, "convolution"),
        ("void at::native::(anonymous namespace)::conv_depthwise2d_forward_kernel<3>(float)", None, "convolution"),
        ("void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128> >(Flash_fwd_params)", None, "attention"),
        ("_ZN5aiter13fmha_bwd_hd128", None, "attention"),
        ("void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float>(int)", None, "normalization"),
        ("MIOpenBatchNormFwdTrainSpatial", None, "normalization"),
        ("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>(x)", None, "normalization"),
        ("void (anonymous namespace)::softmax_warp_forward<float, float, float, 10>(x)", None, "softmax and loss"),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >(int)", None,
         "element-wise and copies"),
        ("void at::native::multi_tensor_apply_kernel<at::native::TensorListMetadata<1> >(x)", None, "optimizer"),
        ("void at::native::elementwise_kernel<128, 4, f::{lambda(int)#1}>(int)", None, "element-wise and copies"),
        ("triton_poi_fused_add_3", None, "element-wise and copies"),
        ("triton_red_fused_sum_1", None, "reduction"),
        ("kernel_17", "aten::mm", "GEMM"),
        ("kernel_17", None, "other"),
    ],
)  # fmt: skip
def test_kinds(name: str, operator: str | None, kind: str) -> None:
    assert kind_of_kernel(name, operator) == kind


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("void at::vectorized_kernel<4, at::Add<float>, Array<char*, 3> >(int, Add)", "at::vectorized_kernel"),
        ("void at::native::(anonymous namespace)::copy<int>(x)", "at::native::copy"),
        ("ampere_sgemm_128x64_tn", "ampere_sgemm_128x64_tn"),
        ("triton_poi_fused_add_3", "triton_poi_fused_add"),
        ("ResNet_0.Sequential_3.Conv2d_12: backward", "ResNet.Sequential.Conv2d: backward"),
        ("aten::mm", "aten::mm"),
        ("<lambda>", "<lambda>"),
        ("operator()", "operator"),
    ],
)
def test_short_names(name: str, short: str) -> None:
    assert short_name(name) == short


@pytest.mark.parametrize(
    ("name", "alike"),
    [
        ("cudaLaunchKernel", "LaunchKernel"),
        ("hipLaunchKernel", "LaunchKernel"),
        ("cuLaunchKernelEx", "LaunchKernel"),
        ("hipExtModuleLaunchKernel", "LaunchKernel"),
        ("hipMemcpyAsync", "MemcpyAsync"),
        ("cudnn_convolution", "cudnn_convolution"),
        ("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "enumerate(DataLoader)"),
        ("aten::add", "aten::add"),
    ],
)
def test_calls_of_two_vendors_and_loaders_are_alike(name: str, alike: str) -> None:
    assert call_name(name) == alike
