"""A Lightning module that counts right answers value by value in `training_step`. `--fixed` compares whole tensors.

Needs `pip install lightning`.
"""

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader

from parts import Network, Pictures, arguments


class Classifier(lightning.LightningModule):
    def __init__(self, width: int, *, fixed: bool) -> None:
        super().__init__()
        self.network, self.fixed, self.right = Network(width), fixed, 0

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], number: int) -> torch.Tensor:
        pictures, labels = batch
        scores = self.network(pictures)
        if self.fixed:
            self.right += int((scores.argmax(dim=1) == labels).sum())
        else:
            for row in range(len(labels)):
                if scores[row].argmax().item() == labels[row].item():  # planted
                    self.right += 1
        return nn.functional.cross_entropy(scores, labels)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01)


def fit(classifier: Classifier, pictures: Pictures, batch_size: int) -> None:
    """Train on all pictures once, on the CPU, with nothing of Lightning's beside the training."""
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(classifier, DataLoader(pictures, batch_size=batch_size))


def main() -> None:
    options = arguments(__doc__, steps=300)
    torch.manual_seed(0)
    fit(Classifier(4, fixed=options.fixed), Pictures(options.steps * 512, size=8), 512)


if __name__ == "__main__":
    main()
