"""Nothing is wrong here: Lightning trains a convolutional network, whose arithmetic takes the time.

Needs `pip install lightning`.
"""

import lightning
import torch
from torch.utils.data import DataLoader

from lightning_metric import Classifier
from parts import Pictures, arguments


def main() -> None:
    options = arguments(__doc__, steps=120)
    torch.manual_seed(0)
    trainer = lightning.Trainer(
        max_steps=options.steps, accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Classifier(32, fixed=True), DataLoader(Pictures(options.steps * 32), batch_size=32))


if __name__ == "__main__":
    main()
