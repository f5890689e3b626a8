"""FLOPs and bytes of operators, counted by hand from their shapes."""

import json
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.analyses.operators.lib.flops import _OPERATORS, SCHEMA, operator_flops, operator_work
from stepscope.analyses.operators.lib.recorded_calls import Unknown, Work, parsed
from stepscope.core.run import Run
from stepscope.core.synth import Synth

FLOAT, BF16, LONG, SCALAR, LIST = "float", "c10::BFloat16", "long int", "Scalar", "ScalarList"


def work(name: str, dims: Sequence[object], types: Sequence[str], arguments: Sequence[str] | None = None) -> Work:
    texts = (json.dumps(dims), json.dumps(types), None if arguments is None else json.dumps(arguments))
    return _OPERATORS[name][1](parsed(name, *texts))


def figures(
    name: str, dims: Sequence[object], types: Sequence[str], arguments: Sequence[str] | None = None
) -> tuple[object, ...]:
    found = work(name, dims, types, arguments)
    return found.flops, found.bytes, found.precision


@pytest.mark.parametrize(
    ("name", "dims", "flops", "elements"),
    [
        ("aten::mm", [[8, 16], [16, 32]], 2 * 8 * 16 * 32, 8 * 16 + 16 * 32 + 8 * 32),
        ("aten::addmm", [[32], [8, 16], [16, 32]], 2 * 8 * 16 * 32, 32 + 8 * 16 + 16 * 32 + 8 * 32),
        ("aten::bmm", [[4, 8, 16], [4, 16, 32]], 2 * 4 * 8 * 16 * 32, 4 * (8 * 16 + 16 * 32 + 8 * 32)),
        ("aten::mv", [[8, 16], [16]], 2 * 8 * 16, 8 * 16 + 16 + 8),
        ("aten::dot", [[16], [16]], 2 * 16, 16 + 16 + 1),
        ("aten::linear", [[2, 8, 16], [32, 16], [32]], 2 * 16 * 16 * 32, 2 * 8 * 16 + 32 * 16 + 32 + 2 * 8 * 32),
        ("aten::matmul", [[5, 1, 8, 16], [3, 16, 32]], 2 * 15 * 8 * 16 * 32, 5 * 8 * 16 + 3 * 16 * 32 + 15 * 8 * 32),
    ],
)
def test_matrix_products(name: str, dims: Sequence[object], flops: int, elements: int) -> None:
    assert figures(name, dims, [FLOAT] * len(dims)) == (flops, 4 * elements, "float32")
    assert figures(name, dims, [BF16] * len(dims)) == (flops, 2 * elements, "bfloat16")


def test_a_scaled_product_of_float8_writes_the_type_it_is_told() -> None:
    kind = "c10::Float8_e4m3fn"
    dims = [[8, 16], [16, 32], [], [], [], [], [], []]
    types = [kind, kind, FLOAT, FLOAT, "", "", SCALAR, SCALAR]
    arguments = ["", "", "", "", "", "", "15", "True"]
    assert figures("aten::_scaled_mm", dims, types, arguments) == (
        2 * 8 * 16 * 32,
        8 * 16 + 16 * 32 + 2 * 8 * 32,
        "float8",
    )


@pytest.mark.parametrize("dims", [[], [[8, 16]], [[8, 16], [17, 32]], [[8, 16], "?"], [[], []]])
def test_what_cannot_be_is_unknown(dims: Sequence[object]) -> None:
    with pytest.raises(Unknown):
        work("aten::mm", dims, [FLOAT] * len(dims))


IMAGE, KERNELS = [2, 8, 30, 20], [16, 4, 3, 5]  # two groups
CONVOLUTION = ["", "", "", "[2, 1]", "[1, 2]", "[1, 1]", "False", "[0, 0]", "2"]
PLACES = 2 * 15 * 20  # (30 + 2 - 3) // 2 + 1 = 15 rows, 20 + 4 - 5 + 1 = 20 columns


def test_a_convolution() -> None:
    dims, types = [IMAGE, KERNELS, [16], [], [], [], [], [], []], [FLOAT, FLOAT, FLOAT, *[LIST] * 6]
    flops = 2 * PLACES * 16 * 4 * 3 * 5
    elements = 2 * 8 * 30 * 20 + 16 * 4 * 3 * 5 + 16 + PLACES * 16
    assert figures("aten::convolution", dims, types, CONVOLUTION) == (flops, 4 * elements, "float32")
    library = [IMAGE, KERNELS, [], [], [], []], [FLOAT, FLOAT, *[LIST] * 4], ["", "", "[1, 2]", "[2, 1]", "[1]", "2"]
    assert figures("aten::cudnn_convolution", *library)[0] == flops
    with pytest.raises(Unknown):
        work("aten::cudnn_convolution", *library[:2])


@pytest.mark.parametrize("stride", ["[0, 1]", "[-1, 1]", "[1, 1, 1]", "[1.5, 1]", "?"])
def test_a_convolution_with_impossible_arguments_is_unknown(stride: str) -> None:
    dims, types = [IMAGE, KERNELS, [16], [], [], [], [], [], []], [FLOAT, FLOAT, FLOAT, *[LIST] * 6]
    for arguments in (["", "", "", stride, *CONVOLUTION[4:]], [*CONVOLUTION[:4], "[-99, 0]", *CONVOLUTION[5:]]):
        with pytest.raises(Unknown):
            work("aten::convolution", dims, types, arguments)


def test_a_transposed_convolution_works_at_each_place_of_its_input() -> None:
    dims, types = [[2, 8, 5, 5], [8, 4, 3, 3], [], [], [], [], [], [], []], [FLOAT, FLOAT, "", *[LIST] * 6]
    arguments = ["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "True", "[1, 1]", "1"]
    side = (5 - 1) * 2 - 2 + 2 + 1 + 1
    found = figures("aten::convolution", dims, types, arguments)
    assert found[:2] == (2 * 2 * 25 * 8 * 4 * 9, 4 * (2 * 8 * 25 + 8 * 4 * 9 + 2 * 4 * side * side))


@pytest.mark.parametrize("padding", [10**7, 2**47, 10**30, 10**400])
def test_a_convolution_whose_output_fits_in_no_memory_is_unknown(padding: int) -> None:
    arguments = [*CONVOLUTION[:4], f"[{padding}, {padding}]", *CONVOLUTION[5:]]
    dims, types = [IMAGE, KERNELS, [16], [], [], [], [], [], []], [FLOAT, FLOAT, FLOAT, *[LIST] * 6]
    with pytest.raises(Unknown):
        work("aten::convolution", dims, types, arguments)


@pytest.mark.parametrize(
    ("mask", "gradients"), [("[True, True, True]", 2), ("[False, True, False]", 1), ("[False, False, True]", 0)]
)
def test_the_backward_of_a_convolution_counts_the_gradients_that_it_computes(mask: str, gradients: int) -> None:
    dims = [[2, 16, 15, 20], IMAGE, KERNELS, [], [], [], [], [], [], [], []]
    types = [FLOAT, FLOAT, FLOAT, *[LIST] * 8]
    arguments = ["", "", "", "[16]", "[2, 1]", "[1, 2]", "[1, 1]", "False", "[0, 0]", "2", mask]
    assert figures("aten::convolution_backward", dims, types, arguments)[0] == gradients * 2 * PLACES * 16 * 4 * 15


@pytest.mark.parametrize(
    ("causal", "pairs"), [("False", 128 * 128), ("True", 128 * 129 // 2)], ids=["all pairs", "causal"]
)
def test_attention(causal: str, pairs: int) -> None:
    q = [2, 4, 128, 64]
    dims, types = [q, q, q, [], [], [], []], [BF16] * 3 + [SCALAR] * 4
    name = "aten::_scaled_dot_product_flash_attention"
    moved = 2 * 4 * 2 * 4 * 128 * 64
    expected = (2 * 4 * pairs * 2 * (64 + 64), moved, "bfloat16")
    assert figures(name, dims, types, ["", "", "", "0.", causal, "False", ""]) == expected
    turned = [2, 128, 4, 64]
    dims, types = [turned, turned, turned, *[[]] * 9], [BF16] * 3 + [""] * 2 + [SCALAR] * 7
    arguments = ["", "", "", "", "", "128", "128", "0.", causal, "False", "", ""]
    assert figures("aten::_flash_attention_forward", dims, types, arguments) == expected
    dims, types = [q] * 5 + [[2, 4, 128]] + [[]] * 6, [BF16] * 5 + [FLOAT] + [SCALAR] * 6
    backward = figures(f"{name}_backward", dims, types, [*[""] * 6, "", "", "128", "128", "0.", causal])
    assert backward == (2 * 4 * pairs * 2 * 5 * 64, 2 * moved, "bfloat16")


def test_attention_that_is_not_known_is_null() -> None:
    q, k = [2, 4, 100, 64], [2, 4, 128, 64]
    dims, types = [q, k, k, [], [], [], []], [BF16] * 3 + [SCALAR] * 4
    arguments = ["", "", "", "0.", "True", "False", ""]
    assert work("aten::_scaled_dot_product_flash_attention", dims, types, arguments).flops is None
    assert work("aten::_scaled_dot_product_flash_attention", dims, types).flops is None
    packed = [[512, 4, 64]] * 3 + [[9], [9], *[[]] * 7], [BF16] * 3 + ["int"] * 2 + [SCALAR] * 7
    with pytest.raises(Unknown):
        work("aten::_flash_attention_forward", *packed, ["", "", "", "", "", "64", "64", "0.", "True", "False", "", ""])


@pytest.mark.parametrize(
    ("name", "dims", "types", "arguments", "expected"),
    [
        ("aten::add", [[8, 1, 4], [5, 4], []], [FLOAT, FLOAT, SCALAR], None, (160, 4 * (32 + 20 + 160), "float32")),
        ("aten::mul", [[8, 4], []], [BF16, FLOAT], None, (32, 2 * 32 + 4 + 2 * 32, "bfloat16")),
        ("aten::mul_", [[8, 4], []], [BF16, SCALAR], None, (32, 2 * 32 * 2, "bfloat16")),
        ("aten::addcmul_", [[9], [9], [9], []], [FLOAT] * 3 + [SCALAR], None, (27, 4 * 9 * 4, "float32")),
        ("aten::eq", [[9], []], [LONG, SCALAR], None, (0, 9 * 8 + 9, "int64")),
        ("aten::where", [[9], [9], []], ["bool", FLOAT, FLOAT], None, (0, 9 + 36 + 4 + 36, "float32")),
        ("aten::copy_", [[8, 4], [4], []], [BF16, FLOAT, SCALAR], None, (0, 2 * 32 + 4 * 4, "bfloat16")),
        ("aten::fill_", [[8, 4], []], [BF16, SCALAR], None, (0, 64, "bfloat16")),
        ("aten::sum", [[8, 4], [], [], []], [FLOAT, LIST, SCALAR, ""], ["", "[-1]", "False", ""],
         (32, 4 * 40, "float32")),
        ("aten::sum", [[8, 4], []], [FLOAT, ""], ["", ""], (32, 4 * 33, "float32")),
        ("aten::sum", [[8, 4], []], [FLOAT, SCALAR], ["", "6"], (32, 4 * 33, "float32")),
        ("aten::max", [[8, 4], [8, 4]], [FLOAT] * 2, ["", ""], (32, 4 * 96, "float32")),
        ("aten::argmax", [[8, 4], [], []], [FLOAT, SCALAR, SCALAR], ["", "1", "False"],
         (32, 4 * 32 + 8 * 8, "float32")),
        ("aten::cumsum", [[8, 4], [], []], [FLOAT, SCALAR, ""], ["", "1", ""], (32, 4 * 64, "float32")),
        ("aten::native_layer_norm", [[8, 4], [], [4], [4], []], [FLOAT, LIST, FLOAT, FLOAT, SCALAR], None,
         (5 * 32, 4 * (64 + 8), "float32")),
        ("aten::native_layer_norm", [[8, 4], [], [], [], []], [FLOAT, LIST, "", "", SCALAR], None,
         (4 * 32, 4 * 64, "float32")),
        ("aten::native_layer_norm_backward", [[8, 4], [8, 4], [], [8, 1], [8, 1], [4], [4], []],
         [FLOAT, FLOAT, LIST, FLOAT, FLOAT, FLOAT, FLOAT, LIST], None, (10 * 32, 4 * (96 + 8), "float32")),
        ("aten::_softmax", [[8, 4], [], []], [BF16, SCALAR, SCALAR], ["", "-1", "True"],
         (96, 2 * 32 + 4 * 32, "bfloat16")),
        ("aten::_softmax_backward_data", [[8, 4], [8, 4], [], []], [FLOAT] * 2 + [SCALAR] * 2, ["", "", "-1", "6"],
         (128, 4 * 96, "float32")),
        ("aten::embedding", [[1000, 4], [2, 3], [], [], []], [FLOAT, LONG, *[SCALAR] * 3],
         ["", "", "-1", "False", "False"],
         (0, 6 * 8 + 2 * 4 * 24, "float32")),
        ("aten::index_select", [[1000, 4], [], [6]], [FLOAT, SCALAR, LONG], ["", "0", ""],
         (0, 6 * 8 + 2 * 4 * 24, "float32")),
        ("aten::_foreach_add_", [[[3, 4], [5]], [], []], ["TensorList", "", SCALAR], None, (17, None, None)),
    ],
)  # fmt: skip
def test_light_work(
    name: str,
    dims: Sequence[object],
    types: Sequence[str],
    arguments: Sequence[str] | None,
    expected: tuple[object, ...],
) -> None:
    assert figures(name, dims, types, arguments) == expected


def operator(
    synth: Synth, name: str, start: float, end: float, *inputs: tuple[Sequence[object], str], **more: str
) -> None:
    dims, types = json.dumps([dims for dims, _ in inputs]), json.dumps([kind for _, kind in inputs])
    synth.host(name, "operator", start, end, input_dims=dims, input_types=types, **more)


def linear_layer() -> Run:
    """linear → addmm → copy_ of the bias, and the nodes that stand for nothing of their own."""
    synth, x, w, b = Synth(), ([8, 16], FLOAT), ([16, 32], FLOAT), ([32], FLOAT)
    operator(synth, "aten::linear", 0, 100, x, ([32, 16], FLOAT), b)
    operator(synth, "aten::t", 1, 2, ([32, 16], FLOAT))
    operator(synth, "aten::addmm", 10, 90, b, x, w)
    operator(synth, "aten::copy_", 20, 30, ([8, 32], FLOAT), ([8, 32], FLOAT))
    synth.host("aten::relu", "operator", 110, 120)
    return synth.run()


def test_only_the_innermost_operator_stands_for_the_work() -> None:
    found = operator_flops(linear_layer())
    assert dict(found.schema) == SCHEMA
    assert found.rows() == [
        (0, "1", 2, 2.0 * 8 * 16 * 32, 4.0 * (32 + 8 * 16 + 16 * 32 + 8 * 32), "float32", "GEMM"),
        (0, "1", 3, 0.0, 2 * 4.0 * 8 * 32, "float32", "copy"),
    ]
    assert operator_work(linear_layer())["row"].to_list() == [2, 3]


def test_an_unknown_inner_call_leaves_the_work_to_the_known_one_around_it() -> None:
    synth, q = Synth(), ([2, 4, 128, 64], BF16)
    scalars: list[tuple[Sequence[object], str]] = [([], SCALAR)] * 4
    arguments = json.dumps(["", "", "", "0.", "False", "False", ""])
    operator(synth, "aten::_scaled_dot_product_flash_attention", 0, 50, q, q, q, *scalars, concrete_inputs=arguments)
    operator(synth, "aten::_flash_attention_forward", 5, 45, *[([512, 4, 64], BF16)] * 3, ([9], "int"))
    assert operator_flops(synth.run()).select("index", "flops").rows() == [(0, 2.0 * 4 * 128 * 128 * 2 * (64 + 64))]


def test_gradients_tell_the_shape_of_outputs_where_arguments_were_not_recorded() -> None:
    synth, x, w = Synth(), ([2, 8, 30, 20], FLOAT), ([16, 8, 3, 3], FLOAT)
    operator(synth, "aten::cudnn_convolution", 0, 10, x, w)
    operator(synth, "aten::cudnn_convolution_backward", 20, 50, x, ([2, 16, 15, 10], FLOAT), w)
    operator(synth, "aten::cudnn_convolution_backward_input", 21, 30, ([], "GenericList"), ([2, 16, 15, 10], FLOAT), w)
    operator(synth, "aten::cudnn_convolution_backward_weight", 31, 40, ([], "GenericList"), ([2, 16, 15, 10], FLOAT), x)
    each = 2.0 * 2 * 15 * 10 * 16 * 8 * 9
    assert operator_flops(synth.run()).select("index", "flops").rows() == [(0, each), (2, each), (3, each)]


def test_gradients_of_two_sizes_tell_nothing() -> None:
    synth, x, w = Synth(), ([2, 8, 30, 20], FLOAT), ([16, 8, 3, 3], FLOAT)
    operator(synth, "aten::cudnn_convolution", 0, 10, x, w)
    for at, side in ((20, 15), (60, 30)):
        operator(synth, "aten::cudnn_convolution_backward", at, at + 30, x, ([2, 16, side, 10], FLOAT), w)
    assert operator_flops(synth.run())["flops"].to_list() == [None, None, None]


def test_nothing_is_known_without_shapes() -> None:
    assert operator_flops(Synth().host("aten::mm", "operator", 0, 5).run()).is_empty()
    assert operator_flops(Synth().run()).is_empty()


@given(batch=st.integers(1, 9), c=st.integers(1, 9), k=st.integers(1, 9), h=st.integers(1, 9), w=st.integers(1, 9))
def test_a_convolution_of_one_pixel_is_a_matrix_product(batch: int, c: int, k: int, h: int, w: int) -> None:
    dims, types = [[batch, c, h, w], [k, c, 1, 1], *[[]] * 7], [FLOAT, FLOAT, "", *[LIST] * 6]
    arguments = ["", "", "", "[1, 1]", "[0, 0]", "[1, 1]", "False", "[0, 0]", "1"]
    product = work("aten::linear", [[batch, h, w, c], [k, c], []], [FLOAT, FLOAT, ""])
    assert work("aten::convolution", dims, types, arguments) == product


@given(sizes=st.lists(st.sampled_from((1, 3)), max_size=3), other=st.lists(st.sampled_from((1, 3)), max_size=3))
def test_products_and_sums_broadcast_as_numpy_does(sizes: list[int], other: list[int]) -> None:
    whole = np.broadcast_shapes(tuple(sizes), tuple(other))
    places = int(np.prod(whole, dtype=np.int64))
    assert work("aten::add", [sizes, other], [FLOAT] * 2).flops == places
    assert work("aten::matmul", [[*sizes, 5, 7], [*other, 7, 2]], [FLOAT] * 2).flops == places * 2 * 5 * 7 * 2


SIZES = st.lists(st.integers(-1, 5), max_size=5)
INPUTS = st.lists(SIZES | st.lists(SIZES, max_size=2) | st.none() | st.text(max_size=2), max_size=12)
TYPES = st.lists(st.sampled_from((FLOAT, BF16, LONG, SCALAR, LIST, "", "bool")), max_size=12)
NUMBERS = (
    st.integers(-2, 30)
    | st.sampled_from((2**40, -(2**62), 10**30, 10**400))
    | st.lists(st.integers(-2, 3) | st.booleans(), max_size=4)
)
ARGUMENTS = st.lists(NUMBERS.map(str) | st.sampled_from(("", "True", "False", "?", "1e400")), max_size=15)


@settings(max_examples=400)
@given(name=st.sampled_from(sorted(_OPERATORS)), dims=INPUTS, types=TYPES, arguments=ARGUMENTS)
def test_nothing_that_a_trace_may_hold_breaks_a_formula(
    name: str, dims: list[object], types: list[str], arguments: list[str]
) -> None:
    with suppress(Unknown):
        found = work(name, dims, types, arguments)
        assert found.flops is None or found.flops >= 0
        assert found.bytes is None or found.bytes >= 0


@given(text=st.text(max_size=20))
def test_texts_that_are_no_json_tell_nothing(text: str) -> None:
    assert parsed("aten::mm", f"x{text}]", f"x{text}]", "{") == parsed("aten::mm", None, None, None)
