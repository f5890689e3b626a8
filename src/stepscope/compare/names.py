"""Names of kernels, operators and modules, made comparable: without template arguments, and by what they compute."""

import re

from stepscope.core.communication import is_communication

__all__ = ["call_name", "kind_of_kernel", "short_name"]

_NUMBER = re.compile(r"_\d+(?=$|[.:])")  # instances of modules, and Triton's kernels, are numbered in order of creation
_LOADER = "enumerate(DataLoader)"
_VENDOR = re.compile(r"^(?:cuda|cu|hip)(?:Ext)?(?:Module)?(?=[A-Z])|(?<=LaunchKernel)ExC?$")
_ANONYMOUS = re.compile(r"\(anonymous namespace\)|<unnamed>")

# What a kernel computes, by its name; of several the first. The names are those of cuBLAS, cuDNN, CUTLASS, Tensile,
# MIOpen, Composable Kernel, AITER, ATen, Apex, Inductor and vLLM, in lower case.
_KINDS = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        ("attention", r"flash|fmha|attention|attn|sdpa|paged_?kv|reshape_and_cache"),
        (
            "convolution",
            r"conv(?!ert)|scudnn|fprop|dgrad|wgrad|winograd|im2col|col2im|igemm_(?:fwd|bwd|wrw)|sp3asm|depthwise|cudnn_ampere",
        ),
        ("normalization", r"norm|bn_(?:fw|bw)|batch_?norm|rmsnorm|welford"),
        ("softmax and loss", r"softmax|nll_loss|cross_entropy|crossentropy"),
        ("optimizer", r"multi_tensor_apply|adam|sgd|lamb(?!da)|optimizer"),
        (
            "GEMM",
            r"gemm|gemv|cijk_|nvjet|cutlass|cublas|matmul|(?<![a-z])[hsb]?mma(?![a-z])|(?<![a-z])mm(?![a-z])"
            r"|splitk|dot_kernel|marlin|xmma|wgmma",
        ),
        ("pooling and resampling", r"pool|upsample|interpolat|grid_sampl"),
        ("embedding and indexing", r"embedding|index|gather|scatter|topk|sort|unique|nonzero"),
        ("reduction", r"reduce|reduction|cumsum|scan|triton_(?:red|per)_"),
        (
            "element-wise and copies",
            r"elementwise|vectorized|pointwise|triton_poi|copy|fill|cat_?array|transpose|nchwtonhwc|nhwctonchw|cast"
            r"|convert|dropout|gelu|relu|silu|philox|distribution|tensor_?transform|permute|scale|add|mul",
        ),
    )
)


def kind_of_kernel(name: str, operator: str | None) -> str:
    """What a kernel computes: GEMM, attention, communication, …; "other" if neither its name nor the operator tells.

    The operator that launches it is asked where its own name tells nothing, as with kernels of Triton.
    """
    if is_communication(name):
        return "communication"
    for words in (name, operator or ""):
        lower = words.lower()
        for kind, pattern in _KINDS:
            if pattern.search(lower):
                return kind
    return "other"


def short_name(name: str) -> str:
    """A name without template arguments, parameters, `void` and numbers of instances: alike on both sides more often.

    `void at::vectorized_kernel<4, Add<float>>(int)` → `at::vectorized_kernel`.
    """
    plain: list[str] = []
    depth = 0
    for letter in _ANONYMOUS.sub("", name.removeprefix("void ")):
        if letter == "(" and depth == 0 and plain:
            break
        depth += (letter == "<") - (letter == ">")
        if depth <= 0 and letter != ">":
            plain.append(letter)
        depth = max(depth, 0)
    return _NUMBER.sub("", "".join(plain).replace("::::", "::")).strip(": ") or name


def call_name(name: str) -> str:
    """As `short_name`, for calls on the host: also without the class of a loader and the vendor of a runtime.

    `enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__` → `enumerate(DataLoader)`, `hipMemcpyAsync` →
    `MemcpyAsync`.
    """
    return _LOADER if name.startswith(_LOADER) else _VENDOR.sub("", short_name(name))
