"""The job binds itself to one core, as a script for a shared machine once did. `--fixed` leaves it all cores."""

import os
import sys

if "--fixed" not in sys.argv:  # torch counts the cores when it is imported
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # planted

from torch.utils.data import DataLoader

from parts import Pictures, arguments, train

if __name__ == "__main__":
    steps = arguments(__doc__, steps=100).steps
    train(DataLoader(Pictures(steps * 64), batch_size=64), width=32, threads=None)
