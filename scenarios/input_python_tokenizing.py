"""Texts are split into parts of words by Python code, each time one is asked for. `--fixed` does it once, before."""

import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from parts import options

_LENGTH, _UNKNOWN, _LETTERS = 512, 1, "abcdefghijklmnopqrstuvwxyz"


class WordPieces:
    """A text to the numbers of the longest parts of its words that are in the vocabulary."""

    def __init__(self, vocabulary: dict[str, int]) -> None:
        self.vocabulary = vocabulary

    def __call__(self, text: str) -> list[int]:
        return [number for word in text.lower().split() for number in self._parts(word)]

    def _parts(self, word: str) -> list[int]:
        found, start = [], 0
        while start < len(word):
            end = len(word)
            while end > start and ("##" if start else "") + word[start:end] not in self.vocabulary:  # planted
                end -= 1
            if end == start:
                return [_UNKNOWN]
            found.append(self.vocabulary[("##" if start else "") + word[start:end]])
            start = end
        return found


class Texts(Dataset[tuple[torch.Tensor, int]]):
    """`count` texts of words made of letters; `once`: they are tokens from the beginning."""

    def __init__(self, count: int, *, once: bool) -> None:
        draw = random.Random(0)
        letters = {mark + letter: 0 for mark in ("", "##") for letter in _LETTERS}
        pairs = {mark + a + b: 0 for mark in ("", "##") for a in _LETTERS for b in _LETTERS}
        vocabulary = {part: number for number, part in enumerate((*letters, *pairs), _UNKNOWN + 1)}
        words = ["".join(draw.choices(_LETTERS, k=draw.randint(4, 12))) for _ in range(5000)]
        self.texts = [" ".join(draw.choices(words, k=150)) for _ in range(512)]
        self.count, self.tokenize = count, WordPieces(vocabulary)
        self.tokens = torch.stack([self._tokens(text) for text in self.texts]) if once else None

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        number = index % len(self.texts)
        tokens = self._tokens(self.texts[number]) if self.tokens is None else self.tokens[number]
        return tokens, index % 10

    def _tokens(self, text: str) -> torch.Tensor:
        numbers = self.tokenize(text)[:_LENGTH]
        return torch.tensor(numbers + [0] * (_LENGTH - len(numbers)))


def main() -> None:
    chosen = options(__doc__, steps=200)
    workers = 2 if chosen.workers is None else chosen.workers
    texts = Texts(chosen.steps * 64, once=chosen.fixed)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.EmbeddingBag(2000, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer, loss_function = torch.optim.SGD(model.parameters(), lr=0.01), nn.CrossEntropyLoss()
    for tokens, labels in DataLoader(texts, batch_size=64, num_workers=workers):
        optimizer.zero_grad()
        loss_function(model(tokens), labels).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
