"""Short epochs, and workers that are started anew in each. `--fixed` keeps them."""

from torch.utils.data import DataLoader

from parts import Pictures, options, train

_EPOCH = 10  # steps


def main() -> None:
    chosen = options(__doc__)
    workers = 2 if chosen.workers is None else chosen.workers
    pictures = Pictures(_EPOCH * 32)
    kept = chosen.fixed and workers > 0
    loader = DataLoader(pictures, batch_size=32, num_workers=workers, persistent_workers=kept)  # planted
    train(loader, epochs=chosen.steps // _EPOCH)


if __name__ == "__main__":
    main()
