"""Transformers' Trainer evaluates on 1,024 texts every 10 steps. `--fixed` does every 100.

Needs `pip install transformers accelerate`.
"""

import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from parts import arguments


class Lines(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """`count` lines of 64 tokens in memory."""

    def __init__(self, count: int) -> None:
        self.tokens = torch.randint(64, (count, 64), generator=torch.Generator().manual_seed(0))

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.tokens[index], "labels": self.tokens[index]}


def main() -> None:
    options = arguments(__doc__, steps=120)
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=64, n_embd=96, n_layer=2, n_head=4))
    with tempfile.TemporaryDirectory() as folder:
        chosen = TrainingArguments(
            folder, per_device_train_batch_size=16, per_device_eval_batch_size=64, max_steps=options.steps,
            eval_strategy="steps", eval_steps=100 if options.fixed else 10, save_strategy="no", logging_steps=50,
            report_to=[], disable_tqdm=True,
        )  # fmt: skip
        trainer = Trainer(model, chosen, train_dataset=Lines(options.steps * 16), eval_dataset=Lines(1024))
        trainer.train()  # planted


if __name__ == "__main__":
    main()
