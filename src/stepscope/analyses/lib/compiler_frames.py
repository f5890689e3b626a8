"""Library frames of torch.compile's compiler at work, and not of the code that it made."""

__all__ = ["COMPILER", "COMPILER_WAITS"]

COMPILER = (
    r"(?m)/torchinductor_.* <module>$|^torch/_dynamo/eval_frame\.py:\d+ catch_errors$|^torch/_dynamo/("
    r"convert_frame|symbolic_convert|bytecode_\w+|guards|output_graph|variables/|codegen|source)"
    r"|^torch/(_functorch/(_aot_autograd/[^r]|aot_autograd|partitioners)|_subclasses)/|^torch/fx/([^t]|t[^r])"
    r"|^torch/_inductor/(compile_fx|graph|scheduler|codegen/|lowering|ir|fx_passes/|cpp_builder|async_compile|codecache"
    r"|dtype_propagation)"
)
"""Matches frames, one a line: its callback, its modules, or generated code being loaded. `[^r]`: not what it runs. A
compiled module's own `__call__` in eval_frame.py is no compiler: every call of the model goes through it."""

COMPILER_WAITS = r"(?m)^torch/(_dynamo/eval_frame|_tensor)\.py:\d+ \w+\n(?:.*\n)*?(?:threading\.py:\d+ wait$|sympy/)"
"""Matches a stack, one frame a line, outermost first: compiled code or backward that waits for who compiles it."""
