"""Whether sampled code writes a checkpoint, told by the library call below the user's own frame.

A name such as `save_everything` tells nothing sure, and a helper of the user's, or a framework, hides the name. What is
sampled below it does not: a function of torch.serialization, of torch.distributed.checkpoint, of safetensors, of pickle
and its kin, or one that is called `save_checkpoint`, `save_pretrained`, `state_dict` or the like in any library
(Lightning, transformers, accelerate). Pictures and logs are saved too: those are no checkpoints.
"""

import re
from collections.abc import Iterable

__all__ = ["saves"]

SHARE = 0.5  # of the time of a stall that decides what it is

# A frame reads `torch/serialization.py:900 save`: library file, line, function.
_STATE_FILES = re.compile(
    r"(?:^|/)(?:torch/serialization|torch/distributed/checkpoint/|torch/package/|safetensors/|_?pickle\.py"
    r"|cloudpickle/|dill/|joblib/numpy_pickle|h5py/|orbax/|numpy/lib/(?:_?npyio|format))"
)
_READS = re.compile(r" _*(?:\w+_)?(?:load|read|loads|unpickle|savetxt)(?:_\w+)?$")
_STATE_FUNCTIONS = re.compile(
    r" (?!_*load)\w*(?:checkpoint|save_pretrained|save_state|save_model|save_weights|atomic_save|state_dict)\w*$"
)
_NO_STATE = re.compile(
    r"^(?:torch/utils/checkpoint|PIL/|matplotlib/|cv2/|imageio/|plotly/|seaborn/|skimage/|tensorboardX?/|wandb/|pandas/)"
    r"|(?:^|/)(?:json/|logging/|csv\.py)"
)

# What is called where Python tells and the function has no frame of its own, as those of C have not.
_STATE_CALLS = re.compile(
    r"^(?:torch|pickle|dill|joblib|np|numpy|safetensors\S*)\.(?:save|savez|dump|save_file)\w*\("
    r"|\.(?:save_checkpoint|save_pretrained|save_state|state_dict)\("
)


def saves(samples: Iterable[tuple[int, str | None, str | None, str | None]]) -> bool | None:
    """Whether samples (weight, call, leaf, expression) write a checkpoint; None if nothing tells either way."""
    weights = {True: 0, False: 0, None: 0}
    for weight, call, leaf, expression in samples:
        weights[_of_sample(call, leaf, expression)] += weight
    whole = sum(weights.values())
    return next((kind for kind in (True, False) if whole and weights[kind] >= SHARE * whole), None)


def _of_sample(call: str | None, leaf: str | None, expression: str | None) -> bool | None:
    if call is None:
        return True if expression and _STATE_CALLS.search(expression) else None
    frames = (call, leaf or call)
    if any(_NO_STATE.search(frame) for frame in frames):
        return False
    if any(_STATE_FILES.search(frame) and not _READS.search(frame) for frame in frames):
        return True
    return True if any(_STATE_FUNCTIONS.search(frame) for frame in frames) else None
