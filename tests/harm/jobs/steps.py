"""Jobs whose steps are not those of one optimizer on one loader: each is a forked child with its own rank.

Each prints its name and how many steps it made. Usage: steps.py NAME...
"""

# mypy: disable-error-code="no-untyped-call,no-any-return"

import copy
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

import torch
import torch._dynamo  # what the children would import each
from torch.utils.data import DataLoader, TensorDataset

import stepscope

Model = torch.nn.Linear


def batches(count: int) -> Iterator[torch.Tensor]:
    for (batch,) in DataLoader(TensorDataset(torch.randn(4 * count, 8)), 4):
        yield batch


def descend(model: Model, optimizer: Any, batch: torch.Tensor) -> None:
    optimizer.zero_grad()
    model(batch).pow(2).mean().backward()
    optimizer.step()


def folds() -> int:
    kept = []
    for _ in range(3):
        model = Model(8, 1)
        optimizer = torch.optim.SGD(model.parameters(), 1e-3)
        kept.append((model, optimizer))
        for batch in batches(7):
            descend(model, optimizer, batch)
    return 21


def clients() -> int:
    models = [Model(8, 1) for _ in range(4)]
    optimizers = [torch.optim.SGD(model.parameters(), 1e-3) for model in models]
    for _ in range(3):
        for model, optimizer in zip(models, optimizers, strict=True):
            for _ in range(2):
                descend(model, optimizer, torch.randn(4, 8))
    return 24


def samples() -> int:
    for _ in range(5):
        model = Model(8, 1)
        optimizer = torch.optim.Adam(model.parameters(), 1e-3)
        for _ in range(3):
            descend(model, optimizer, torch.randn(4, 8))
    return 15


def meta() -> int:
    """Two tasks of three inner steps to an outer one."""
    model = Model(8, 1)
    outer = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(6):
        for _ in range(2):
            inner = copy.deepcopy(model)
            optimizer = torch.optim.SGD(inner.parameters(), 1e-2)
            for _ in range(3):
                descend(inner, optimizer, torch.randn(4, 8))
        loss = inner(torch.randn(4, 8)).pow(2).mean()
        for parameter, gradient in zip(
            model.parameters(), torch.autograd.grad(loss, list(inner.parameters())), strict=True
        ):
            parameter.grad = gradient
        outer.step()
    return 6


def adversaries() -> int:
    models = Model(8, 1), Model(8, 1)
    critic, generator = (torch.optim.SGD(model.parameters(), 1e-3) for model in models)
    for number, batch in enumerate(batches(11)):
        descend(models[0], critic, batch)
        if number % 5 == 0:
            descend(models[1], generator, batch)
    return 11


def own() -> int:
    model = Model(8, 1)

    class Own:
        def zero_grad(self) -> None:
            for parameter in model.parameters():
                parameter.grad = None

        def step(self) -> None:
            with torch.no_grad():
                for parameter in model.parameters():
                    assert parameter.grad is not None
                    parameter -= 0.01 * parameter.grad  # type: ignore[misc]

    for batch in batches(9):
        descend(model, Own(), batch)
    return 9


def inside() -> int:
    model = Model(8, 1)
    optimizers = {parameter: torch.optim.SGD([parameter], 1e-2) for parameter in model.parameters()}
    for parameter, optimizer in optimizers.items():
        parameter.register_post_accumulate_grad_hook(lambda _, optimizer=optimizer: optimizer.step())
    for batch in batches(9):
        model(batch).pow(2).mean().backward()
    return 9


def helper() -> int:
    model = Model(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    for batch in batches(9):
        thread = threading.Thread(target=model(batch).pow(2).mean().backward)
        thread.start()
        thread.join()
        optimizer.step()
    return 9


def functional() -> int:
    model = Model(8, 1)
    parameters = dict(model.named_parameters())

    def loss(parameters: Any, batch: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(model, parameters, (batch,)).pow(2).mean()

    for batch in batches(9):
        gradients = torch.func.grad(loss)(parameters, batch)
        parameters = {name: (value - 0.01 * gradients[name]).detach() for name, value in parameters.items()}
        stepscope.step()
    return 9


def saliency() -> int:
    """Gradients of validation batches, and an evaluation on the training loader, in every third step."""
    model = Model(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    validation = DataLoader(TensorDataset(torch.randn(12, 8)), 4)
    train = DataLoader(TensorDataset(torch.randn(36, 8)), 4)
    for number, (batch,) in enumerate(train):
        if number % 3 == 1:
            for (other,) in validation:
                model(other.requires_grad_()).sum().backward()
            for (other,) in train:
                model(other).sum()
        descend(model, optimizer, batch)
    return 9


class Generated(DataLoader[Any]):
    def _get_iterator(self) -> Any:
        inner = super()._get_iterator()
        return (batch for batch in inner)


def generated() -> int:
    model = Model(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    for _ in range(2):
        for (batch,) in Generated(TensorDataset(torch.randn(20, 8)), 4):
            descend(model, optimizer, batch)
    return 10


def main() -> None:
    torch.set_num_threads(1)
    for rank, name in enumerate(sys.argv[1:]):
        child = os.fork()
        if child == 0:
            os.environ["RANK"] = str(rank)
            torch.manual_seed(0)
            print(name, globals()[name](), torch.rand(()).item(), flush=True)
            os._exit(0)
        if os.waitpid(child, 0)[1] != 0:
            sys.exit(f"{name} failed")


if __name__ == "__main__":
    main()
