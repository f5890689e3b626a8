"""Nothing is wrong here: Transformers' Trainer and a small GPT-2, whose arithmetic takes the time.

Needs `pip install transformers accelerate`.
"""

import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from parts import arguments
from trainer_evaluation import Lines


def main() -> None:
    options = arguments(__doc__, steps=80)
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=64, n_embd=192, n_layer=4, n_head=6, attn_pdrop=0))
    with tempfile.TemporaryDirectory() as folder:
        chosen = TrainingArguments(
            folder, per_device_train_batch_size=16, max_steps=options.steps, save_strategy="no", logging_steps=50,
            report_to=[], disable_tqdm=True,
        )  # fmt: skip
        Trainer(model, chosen, train_dataset=Lines(options.steps * 16)).train()


if __name__ == "__main__":
    main()
