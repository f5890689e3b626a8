"""What names of real kernels and operators tell of communication."""

import json
import re
from importlib.resources import files

import polars as pl
import pytest

from stepscope.core.communication import (
    COMMUNICATION_OPERATOR,
    COMPUTING_OPERATOR,
    communication_name,
    computes,
    is_communication,
)


@pytest.mark.parametrize(
    ("kernel", "library", "collective"),
    [
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "NCCL and RCCL", None),
        ("ncclBroadcastRingLLKernel_copy_i8(ncclColl)", "NCCL and RCCL", None),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)", "NCCL and RCCL", None),
        ("ncclSymDevKernel_AllReduce_RSxLD_AGxST_sum_bf16(ncclSymDevArgs)", "NCCL and RCCL", None),
        ("ncclSymkDevKernel_AllReduce_RSxLDMC_AGxSTMC_sum_bf16(ncclSymkDevWorkArgs4K)", "NCCL and RCCL", None),
        ("ncclGenkDevKernel_ReduceScatter_Ring_LL128_sum_f8e4m3(ncclGenkDevWorkArgs4K)", "NCCL and RCCL", None),
        ("c10d::nccl_extension::lsa_put_signal_kernel(void**, void**, int)", "NCCL and RCCL", None),
        ("mscclKernel_Sum_hip_bfloat16_Simple_false", "MSCCL of RCCL, and MSCCL++", None),
        ("void mscclpp::executionKernel<__half, mscclpp::LL16Packet, false>(int)", "MSCCL of RCCL, and MSCCL++", None),
        ("ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)", "NCCL and RCCL", None),
        ("void RCCL_kernel", "NCCL and RCCL", None),
        ("void deep_ep::intranode::notify_dispatch<8>(int const*, int*, int const*, int*)", "DeepEP", "dispatch"),
        ("void deep_ep::internode_ll::dispatch<(bool)0, (bool)0, (int)7168>(void *)", "DeepEP", "dispatch"),
        ("void deep_ep::intranode::cached_notify_combine<8>(void**, int*, int)", "DeepEP", "combine"),
        ("_ZN7deep_ep9intranode8dispatchILi8ELi768EEEvP4int4", "DeepEP", "dispatch"),
        ("void deep_ep::internode_ll::dispatch_opt1_hidden6144<1, false, 1>(void*)", "DeepEP", "dispatch"),
        ("void ep::internode::combine<4, __nv_bfloat16>(int4*)", "DeepEP", "combine"),
        ("deep_ep::intranode::barrier(int**, int)", "DeepEP", "barrier"),
        ("void deep_ep::internode::cached_notify<false>(int, int, int)", "DeepEP", "barrier"),
        ("void dpsk::ep::cached_notify<8>(int*)", "DeepEP", "barrier"),
        ("_ZN4dpsk2ep13cached_notifyILb0EEEvi", "DeepEP", "barrier"),
        ("void (anonymous namespace)::multimem_all_reduce_kernel<16>(char*)", "symmetric memory of torch", None),
        ("EpDispatchIntraNodeKernel_bf16", "MoRI-EP", "dispatch"),
        ("EpDispatchInterNodeV1KernelLowLatency", "MoRI-EP", "dispatch"),
        ("moeA2ADispatchKernel", "pplx-kernels, TensorRT-LLM", "dispatch"),
        ("moeA2ACombineKernel", "pplx-kernels, TensorRT-LLM", "combine"),
        ("void exchangeSplitAndOffset_2d<false>(long*, long*, int)", "NVSHMEM in torch", "all_to_allv"),
        ("c10d::nvshmem_extension::allToAllV_2d(void*, void*, long*, long*)", "NVSHMEM in torch", "all_to_allv"),
        ("nvshmemi_barrier_kernel", "NVSHMEM and rocSHMEM", None),
        (
            "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)",
            "custom all-reduce of vLLM, SGLang and AITER",
            "all_reduce",
        ),
        (
            "_ZN5aiter26cross_device_reduce_2stageIDF16bLi8ELb0EEEv",
            "custom all-reduce of vLLM, SGLang and AITER",
            "all_reduce",
        ),
        (
            "_ZN5aiter33reduce_scatter_cross_device_storeIDF16bLi8EEEvPNS_8RankDataE",
            "custom all-reduce of vLLM, SGLang and AITER",
            "reduce_scatter",
        ),
        (
            "quickreduce::allreduce_prototype_twoshot<AllReduceTwoshot<__half, CodecQ4<__half,4>, true>, __half>",
            "QuickReduce of vLLM, SGLang and AITER",
            "all_reduce",
        ),
        (
            "void tensorrt_llm::kernels::oneShotAllReduceKernel<half, 8, true, false>(AllReduceParams)",
            "TensorRT-LLM, FlashInfer, AITER and symmetric memory of torch",
            "all_reduce",
        ),
        (
            "void tensorrt_llm::kernels::lowPrecisionTwoShotAllReduceKernel<__nv_bfloat16, 8>(Params)",
            "TensorRT-LLM, FlashInfer, AITER and symmetric memory of torch",
            "all_reduce",
        ),
        (
            "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<(int)1, __nv_bfloat16>",
            "TensorRT-LLM, FlashInfer, AITER and symmetric memory of torch",
            "all_reduce",
        ),
        (
            "void (anonymous namespace)::two_shot_all_reduce_kernel_inplace<c10::BFloat16, 16, 2>(c10::BFloat16**)",
            "TensorRT-LLM, FlashInfer, AITER and symmetric memory of torch",
            "all_reduce",
        ),
        (
            "void (anonymous namespace)::multimem_all_gather_kernel<16>(char*, char*)",
            "symmetric memory of torch",
            None,
        ),
        ("c10d::symmetric_memory::barrier_kernel(unsigned int**, int)", "symmetric memory of torch", None),
        ("c10d::symmetric_memory::put_signal_kernel(unsigned int**, int)", "symmetric memory of torch", None),
        (
            "void userbuffers_fp16_sum_inplace_gpu_rr_rs_oop<8>(int)",
            "Userbuffers of Transformer Engine",
            "reduce_scatter",
        ),
        ("kuserbuffers_pushsend(int*, int*)", "Userbuffers of Transformer Engine", "send_recv"),
        ("hcom_allReduce__606_0_1", "HCCL of Ascend", None),
        ("two_shot_reduce_scatter_kernel", "a kernel named after a collective", None),
    ],
)
def test_kernels_that_communicate(kernel: str, library: str, collective: str | None) -> None:
    found = communication_name(kernel)
    assert found is not None
    assert (found.library, found.collective) == (library, collective)


@pytest.mark.parametrize(
    "kernel",
    [
        "void deep_ep::layout::get_dispatch_layout<256, 32, 8>(long const*, int*)",
        "dispatch",
        "triton_poi_fused_all_gather_into_tensor_cat_3",
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>",
        "void c10d::checkForNaN<float>(float*, unsigned long)",
        "void cublasLt::splitKreduce_kernel<32, 16, int, float>",
        "void at_cuda_detail::cub::DeviceReduceKernel<Policy>(float*)",
        "void layer_norm_grad<WarpAllReduce<SumOp>>(float*)",
        "void fused_moe_combine(AllReduceParams)",
        "moeA2APrepareDispatchKernel(int*, int*, int, unsigned int*)",
        "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT64x48x256",
        "rocprim::detail::trampoline_kernel<reduce_config>",
        "Memcpy PtoP (Device -> Device)",
        "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16ELb1ELb0ELb1ELi1EEEvPT0_",
    ],
)
def test_kernels_that_do_not(kernel: str) -> None:
    assert not is_communication(kernel)


@pytest.mark.parametrize(
    ("operator", "communicates"),
    [
        ("c10d::allreduce_", True),
        ("_c10d_functional::all_gather_into_tensor", True),
        ("nccl:all_reduce", True),
        ("xccl:coalesced", True),
        ("record_param_comms", True),
        ("_C_custom_ar::all_reduce", True),
        ("vllm::all_reduce", True),
        ("sgl_kernel::all_reduce", True),
        ("symm_mem::multimem_all_reduce_", True),
        ("symm_mem::fused_all_gather_matmul", False),
        ("aiter::fused_allreduce_rmsnorm", False),
        ("aten::mm", False),
        ("aten::scatter_reduce_", False),
        ("DistributedDataParallel.forward", False),
        ("torch::distributed::reducer::mul_out", False),
    ],
)
def test_operators_that_communicate(operator: str, communicates: bool) -> None:
    name = pl.Series("name", [operator])
    found = name.str.contains(COMMUNICATION_OPERATOR) & ~name.str.contains(COMPUTING_OPERATOR)
    assert found.to_list() == [communicates]


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        ("void at::native::elementwise_kernel<128, 2>", True),
        ("volta_sgemm_64x64_nt", True),
        ("void cudnn::bn_fw_tr_1C11_singleread<float, 512, true, 1, 2, 0>", True),
        ("Cijk_Ailk_Bljk_BBS_BH_MT128x128x32", True),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", False),
        ("my_own_exchange_kernel", False),  # the operator that launches it tells
    ],
)
def test_kernels_that_compute_whatever_operator_launches_them(kernel: str, expected: bool) -> None:
    assert computes(kernel) is expected


def test_every_name_has_a_source_and_says_something_of_its_own() -> None:
    names = json.loads(files("stepscope.core").joinpath("communication.json").read_text(encoding="utf-8"))
    entries = [*names["kernels"], *names["operators"], names["computing_kernels"]]
    entries += [names["computing_libraries"], names["computing_operators"]]
    assert all(entry["source"] for entry in entries)
    patterns = [entry["pattern"] for entry in entries]
    assert len(set(patterns)) == len(patterns)
    assert all(re.compile(pattern) for pattern in patterns)
