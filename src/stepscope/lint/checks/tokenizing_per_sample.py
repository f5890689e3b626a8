"""`__getitem__` tokenizes a text for every sample, again in every epoch.

Tokenize once before training, or whole batches in the collate function.
"""

import ast
from collections.abc import Iterator

from stepscope.lint.check import Check, Hit, hit_at
from stepscope.lint.script import Script, dotted

__all__ = ["CHECK"]


def find(script: Script) -> Iterator[Hit]:
    for method in script.methods("__getitem__"):
        for call in ast.walk(method):
            if isinstance(call, ast.Call) and "tokeniz" in dotted(call.func).lower():
                what = f"`{script.code(call)[:60]}` tokenizes for every sample, again in every epoch"
                fix = "tokenize once before training, and store the token ids"
                yield hit_at(call, what, fix)


CHECK = Check(
    find=find,
    example="""\
class Texts(Dataset):
    def __getitem__(self, index):
        return self.tokenizer(self.texts[index], truncation=True)
""",
    fixed="""\
class Texts(Dataset):
    def __init__(self, texts):
        self.tokens = tokenizer(texts, truncation=True)["input_ids"]

    def __getitem__(self, index):
        return self.tokens[index]
""",
)
