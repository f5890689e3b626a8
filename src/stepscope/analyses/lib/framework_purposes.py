"""What a framework is at, told by the names of its functions: saving a checkpoint, validating, logging.

`trainer.train()` and `trainer.fit(model)` hold the whole loop, so that all a framework does besides the model is
sampled in one line of the user's. The library frames below that line tell what it is for.
"""

import re
from collections.abc import Sequence

__all__ = ["PURPOSES", "framework", "purpose", "telling"]

PURPOSES = ("checkpoint", "evaluation", "logging")

# Looked for in this order: a checkpoint is also saved in an evaluation loop, and both log.
_SIGNS = {
    "checkpoint": r"(?i)ModelCheckpoint|save_?checkpoint|save_pretrained|save_state\b|save_weights|SaveModelCallback|"
    r"\b_save_(?:topk|last|none|model)",
    "evaluation": r"(?i)\bevaluate\b|evaluation_?loop|prediction_step|_run_validation|\bvalidate\b|_do_epoch_validate",
    "logging": r"(?i)log_metrics|logger_connector|\b_?log(?:_epoch|_dict|_params|ger)?\b|/loggers?/|tensorboard|wandb|"
    r"mlflow|ProgressBar|ProgressCallback|tqdm|CSVLogger|printer_callback",
}
_KNOWN = {name: re.compile(pattern) for name, pattern in _SIGNS.items()}
_PACKAGE = re.compile(r"^([A-Za-z_]\w*)[/\\]")


def purpose(frames: Sequence[str | None]) -> str | None:
    """The purpose that library frames (call, those between, leaf; outermost first) tell; None if none does."""
    return next((name for name, known in _KNOWN.items() if any(known.search(frame) for frame in frames if frame)), None)


def telling(frames: Sequence[str | None]) -> str | None:
    """The outermost of these frames that tells their purpose; None if none does."""
    told = _KNOWN.get(purpose(frames) or "")
    return next((frame for frame in frames if told and frame and told.search(frame)), None)


def framework(frames: Sequence[str | None]) -> str:
    """The package of the first of these frames that is of one; empty if none is."""
    found = (_PACKAGE.match(frame) for frame in frames if frame)
    return next((match[1] for match in found if match), "")
