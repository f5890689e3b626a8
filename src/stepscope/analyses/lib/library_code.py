"""Whose code a file is: Python's, an installed library's, or the user's own."""

import re
import sys
from functools import cache

__all__ = ["INSTALLED", "is_installed", "is_library"]

INSTALLED = r"(?:site|dist)-packages[/\\]|[/\\]lib(?:64)?[/\\]python\d"
"""In the whole path of a file that belongs to Python or to an installed package."""

_IS_INSTALLED = re.compile(INSTALLED)
_LIBRARY_PATH = re.compile(
    INSTALLED + r"|torchinductor_|^<"
    r"|[/\\]torch[/\\](?:_|nn|optim|utils|autograd|cuda|distributed|profiler|amp|fx|jit|backends|functional|overrides)"
)
# Profilers cut a file's path at the folder that Python found it in, so libraries and the user's own modules look alike;
# these are the libraries that training jobs commonly call through.
_LIBRARIES = frozenset(
    re.findall(
        r"\w+",
        """
        accelerate aiter apex av clearml composer cv2 datasets deepspeed diffusers einops evaluate fairscale fastai
        flash_attn huggingface_hub ignite joblib jax lightning lightning_fabric lightning_utilities matplotlib megatron
        mlflow monai numba numpy pandas peft PIL polars pyarrow pydantic pytorch_lightning ray safetensors scipy
        sentence_transformers skimage sklearn stepscope tensorboard tensorboardX tensorstore timm tokenizers torch
        torch_guard torch_geometric torchaudio torchdata torchmetrics torchtext torchvision tqdm transformer_engine
        transformers triton triton_kernels trl typing_extensions urllib3 vllm wandb webdataset xformers yaml zarr
        """,
    )
)


def is_installed(file: str) -> bool:
    """Whether a file, by its whole path, belongs to Python or to an installed package."""
    return _IS_INSTALLED.search(file) is not None


@cache
def is_library(file: str) -> bool:
    """Whether a file of a frame belongs to Python, torch or an installed library, not to the user."""
    if _LIBRARY_PATH.search(file):
        return True
    top = re.split(r"[/\\]", file)[0].removesuffix(".py")
    return top in sys.stdlib_module_names or top in _LIBRARIES
