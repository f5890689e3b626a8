"""Transformers' Trainer; texts are tokenized by Python code whenever one is asked for. `--fixed` does it once, before.

Needs `pip install transformers accelerate`.
"""

import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from input_python_tokenizing import Texts
from parts import arguments


class Reviews(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """The texts with the names that the model knows its inputs by."""

    def __init__(self, count: int, *, once: bool) -> None:
        self.texts = Texts(count, once=once)

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        tokens, label = self.texts[index]  # planted
        return {"input_ids": tokens[:32], "labels": torch.tensor(label % 2)}


def main() -> None:
    options = arguments(__doc__, steps=150)
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the other core is for the worker
    config = BertConfig(
        vocab_size=2000, hidden_size=64, num_hidden_layers=1, num_attention_heads=2, intermediate_size=128
    )
    with tempfile.TemporaryDirectory() as folder:
        chosen = TrainingArguments(
            folder, per_device_train_batch_size=32, max_steps=options.steps, logging_steps=50, save_strategy="no",
            report_to=[], disable_tqdm=True, dataloader_num_workers=1,
        )  # fmt: skip
        model = BertForSequenceClassification(config)
        Trainer(model, chosen, train_dataset=Reviews(options.steps * 32, once=options.fixed)).train()


if __name__ == "__main__":
    main()
