"""Which kernels and operators the rules about operators count, by their real names, and which they leave alone."""

import pytest

from stepscope.analyses.device.lib.fp32_matmul import convolves_fp32
from stepscope.core.finding import Finding
from stepscope.core.synth import MS, Synth
from stepscope.report.diagnose import RULES
from stepscope.rules.operators import dtype_conversion, elementwise_chains, float64, layout_conversion, layout_copies

COPY = "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >"


def found(rule: str, synth: Synth) -> list[Finding]:
    return list(RULES.get(rule).check(synth.run()))


def steps(*kernels: str) -> Synth:
    """Four steps of 100 ms, which these kernels fill in equal parts."""
    synth = Synth().add("devices", device=0, name="A100", capability="8.0")
    for step in range(4):
        synth.host(f"ProfilerStep#{step}", "annotation", 100 * step, 100 * step + 100)
        for number, name in enumerate(kernels):
            start, each = 100 * step, 100 / len(kernels)
            synth.kernel(start + each * number, start + each * (number + 1), name, blocks_per_sm=4.0)
    return synth


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("void implicit_convolve_sgemm<float, float, 1024, 6, 7, 3, 3, 5, 1, false, true, true>(int)", True),
        ("cudnn_infer_volta_scudnn_128x64_relu_medium_nn_v1", True),
        ("void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int)", True),
        ("void cudnn::cnn::wgrad_alg0_engine<float, 128, 6, 7, 3, 3, 5, false, 512>(int)", True),
        ("void cudnn::detail::dgrad_engine<__half, 512, 6, 5, 3, 3, 3, false>(int)", False),
        ("sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16", False),
        ("volta_sgemm_64x64_nt", False),
    ],
)
def test_kernels_of_convolutions_in_fp32(name: str, *, expected: bool) -> None:
    assert convolves_fp32(name) is expected


def test_a_product_that_a_convolution_launches_is_no_matmul() -> None:
    """TF32 for matmuls leaves it as it is."""
    synth = steps("softmax")
    for step in range(4):
        synth.host("aten::cudnn_convolution", "operator", 100 * step, 100 * step + 90)
        synth.host("cudaLaunchKernel", "runtime", 100 * step + 1, 100 * step + 2, correlation=step + 1)
        synth.kernel(100 * step, 100 * step + 50, "ampere_sgemm_64x64_nt", correlation=step + 1)
    assert found("fp32-matmul", synth) == []
    (finding,) = found("fp32-convolution", steps("void implicit_convolve_sgemm<float, float, 128, 6>", "softmax"))
    assert finding.evidence[0].value == 50 * MS


def test_a_cast_is_told_from_a_copy_into_another_layout() -> None:
    cast = f"void at::native::unrolled_elementwise_kernel<{COPY}, at::native::memory::LoadWithCast<1> >"
    copy = f"void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<{COPY}> >"
    unclear = f"void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl<{COPY}> >"
    for name, casts, copies in ((cast, True, False), (copy, False, True), (unclear, False, False)):
        assert bool(dtype_conversion._CASTS.search(name)) is casts
        assert bool(layout_copies._COPIES.search(name)) is copies
    assert layout_conversion._CONVERTS.search("void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>")


def test_an_argument_of_type_double_is_no_work_in_float64() -> None:
    assert float64._KERNEL.search("volta_dgemm_64x64_nn")
    assert float64._KERNEL.search(
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<double> >"
    )
    assert not float64._KERNEL.search(
        "at::native::batch_norm_calc_invstd(at::Tensor const&, at::Tensor const&, double)"
    )


def test_elementwise_kernels_that_something_else_parts_are_no_chain() -> None:
    assert found("elementwise-chains", steps("gemm", ADD, ADD, ADD, ADD))
    assert found("elementwise-chains", steps(ADD, ADD, "gemm", ADD, "gemm")) == []
    assert found("elementwise-chains", steps("gemm", ADD, ADD, ADD, ADD, "triton_poi_fused_add_0")) == []
    assert elementwise_chains.SHORTEST_RUN == 3


def attention(*between: str) -> Synth:
    """A step of operators, each of 10 ms, of which each launches a kernel of 10 ms."""
    synth = Synth()
    names = ("aten::addmm", "aten::bmm", *between, "aten::bmm", "aten::addmm")
    for step in range(4):
        length = 10 * len(names)
        synth.host(f"ProfilerStep#{step}", "annotation", step * length, (step + 1) * length)
        for number, name in enumerate(names):
            start, launch = step * length + 10 * number, step * 100 + number + 1
            synth.host(name, "operator", start, start + 10)
            synth.host("cudaLaunchKernel", "runtime", start, start + 1, correlation=launch)
            synth.kernel(start, start + 10, name[6:], correlation=launch)
    return synth


def test_attention_is_what_lies_between_two_batched_products_with_a_softmax() -> None:
    (finding,) = found("unfused-attention", attention("aten::mul", "aten::_softmax", "aten::native_dropout"))
    assert finding.evidence[0].value == 30 * MS
    assert found("unfused-attention", attention("aten::mul", "aten::add")) == []
    assert found("unfused-attention", attention("aten::_softmax", "aten::native_layer_norm")) == []


@pytest.mark.parametrize(
    ("between", "around", "advice"),
    [
        (("aten::_softmax", "aten::native_dropout"), "aten::_scaled_dot_product_attention_math", "Leave dropout out"),
        (("aten::_softmax", "aten::mul"), "aten::_scaled_dot_product_attention_math", "Compute attention"),
        (("aten::_softmax", "aten::native_dropout"), "aten::matmul", "Compute attention"),
    ],
)
def test_a_fused_call_that_falls_back_on_a_cpu_is_told_why(between: tuple[str, ...], around: str, advice: str) -> None:
    synth = Synth().host("ProfilerStep#0", "annotation", 0, 40).host(around, "operator", 0, 40)
    for number, name in enumerate(("aten::bmm", *between, "aten::bmm")):
        synth.host(name, "operator", 10 * number, 10 * number + 10)
    (finding,) = found("unfused-attention", synth)
    assert finding.advice[0].text.startswith(advice)
    assert ("runs as single operators" in finding.title.words) is advice.startswith("Leave")


def test_what_operators_take_on_the_host_is_told_in_steady_steps_and_not_in_slower_traced_ones() -> None:
    synth = Synth()
    for step in range(8):
        tags = ("traced",) if step == 7 else ()
        synth.step(step, 100 * step, 100 * step + 50, forward=30, backward=20, tags=tags)
    synth.host("ProfilerStep#7", "annotation", 700, 800)
    for number, name in enumerate(("aten::bmm", "aten::_softmax", "aten::bmm")):
        synth.host(name, "operator", 700 + 30 * number, 730 + 30 * number)
    (finding,) = found("unfused-attention", synth)
    assert finding.evidence[0].value == pytest.approx(15 * MS)
    assert finding.evidence[0].share == pytest.approx(0.3)
    assert finding.gain is not None
    assert finding.gain.step_ns == 50 * MS


def test_what_a_function_of_autograd_computes_itself_is_not_computed_again() -> None:
    for function, name, fires in (
        ("GeluBackward0", "aten::linear", True),
        ("CheckpointFunctionBackward", "aten::mm", True),
        ("AddmmBackward0", "aten::mm", False),
        ("MineBackward", "aten::linear", False),
    ):
        synth = Synth().host("ProfilerStep#0", "annotation", 0, 100).host(function, "operator", 10, 90)
        assert bool(found("activation-checkpointing", synth.host(name, "operator", 10, 60))) is fires
