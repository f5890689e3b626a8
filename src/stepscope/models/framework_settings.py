"""What is said of work that a framework does besides the model: who does what, and the setting that makes it rarer."""

from stepscope.analyses.lib.framework_purposes import framework
from stepscope.core.finding import Advice, Title, Value
from stepscope.core.plural import plural

__all__ = ["framework_advice", "framework_title"]


def framework_title(purpose: str, inside: str, time: Value, each: Value | None = None) -> Title:
    """`transformers saves checkpoints in the training loop: 1.2 s every 50 steps`; `inside` is its function.

    `time` is that of each such step, `each` the number of steps between two; without it, of every step.
    """
    often = f"every {{}} {plural(each.value, 'step')}" if each else "per step"
    words = f"{{}} {{}} in the training loop: {{}} {often}"
    names = (framework((inside,)) or "The framework", _AT[purpose])
    return Title(words, (*names, time, each) if each else (*names, time))


def framework_advice(purpose: str, inside: str) -> Advice:
    """What a framework does by its settings is made rarer by its settings."""
    settings = next((codes for names, codes in _SETTINGS if framework((inside,)) in names), {})
    return Advice(text=f"{_RARER[purpose]}; the time is spent in {inside}", code=settings.get(purpose, ""))


_AT = {"checkpoint": "saves checkpoints", "evaluation": "validates", "logging": "logs"}
_RARER = {
    "checkpoint": "Save less often, or write the checkpoint in another thread or process",
    "evaluation": "Validate less often, or on a part of the data",
    "logging": "Log less often",
}
_SETTINGS: tuple[tuple[tuple[str, ...], dict[str, str]], ...] = (
    (
        ("transformers", "trl", "sentence_transformers"),
        {
            "checkpoint": 'TrainingArguments(..., save_strategy="steps", save_steps=1000)',
            "evaluation": 'TrainingArguments(..., eval_strategy="steps", eval_steps=1000)',
            "logging": "TrainingArguments(..., logging_steps=100)",
        },
    ),
    (
        ("lightning", "pytorch_lightning"),
        {
            "checkpoint": "ModelCheckpoint(..., every_n_train_steps=1000)",
            "evaluation": "Trainer(..., check_val_every_n_epoch=5, limit_val_batches=0.2)",
            "logging": "Trainer(..., log_every_n_steps=100)",
        },
    ),
)
