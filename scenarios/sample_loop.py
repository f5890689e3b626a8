"""The model is called for one picture of the batch at a time. `--fixed` calls it once for the whole batch."""

import torch
from torch import nn
from torch.utils.data import DataLoader

from parts import Network, Pictures, arguments


def main() -> None:
    options = arguments(__doc__, steps=300)
    torch.manual_seed(0)
    model, loss_function = Network(16), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step, (pictures, labels) in enumerate(DataLoader(Pictures(options.steps * 32, size=16), batch_size=32)):
        optimizer.zero_grad()
        if options.fixed:
            loss = loss_function(model(pictures), labels)
        else:
            loss = torch.zeros(())
            for picture, label in zip(pictures, labels, strict=True):
                scores = model(picture.unsqueeze(0))  # planted
                loss = loss + loss_function(scores, label.unsqueeze(0)) / len(labels)
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
