"""Nothing is wrong here: Lightning trains a convolutional network, whose arithmetic takes the time.

Needs `pip install lightning`.
"""

import torch

from lightning_metric import Classifier, fit
from parts import Pictures, arguments


def main() -> None:
    options = arguments(__doc__, steps=120)
    torch.manual_seed(0)
    fit(Classifier(32, fixed=True), Pictures(options.steps * 32), 32)


if __name__ == "__main__":
    main()
