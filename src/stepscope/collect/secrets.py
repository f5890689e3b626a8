"""Takes secrets out of command lines and source lines before they are written: runs are shared more than shells.

The names of arguments stay, and so does the form: what is hidden is the value alone.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["HIDDEN", "redacted", "redacted_code", "without_scripts"]

HIDDEN = "[hidden]"
"""Stands for a value that is not written down."""

_SECRET_WORDS = frozenset(
    ("secret", "secrets", "token", "password", "passwd", "passphrase", "pwd", "pass", "credential", "credentials",
     "auth", "authorization", "apikey", "authtoken", "accesskey", "secretkey", "privatekey", "pat", "dsn")
)  # fmt: skip
_KEYS = frozenset(("api", "access", "secret", "private", "auth", "account", "service", "ssh", "encryption", "signing",
                   "wandb", "comet", "openai", "hf", "aws", "azure", "gcp", "license"))  # fmt: skip
"""What makes a "key" a secret when it stands before it: the key of an attention head or of a dictionary is none."""

_NOT_SECRET = frozenset(("id", "ids", "dim", "dims", "size", "type", "types", "len", "length", "file", "path", "name",
                         "names", "count", "num", "limit", "budget", "level", "mode", "shift", "mixing", "drop",
                         "dropout", "mask", "index", "per", "max", "min", "n", "embedding", "embeddings", "loss",
                         "weight", "class", "url", "host", "user"))  # fmt: skip
"""Words that make a number, a name or a place of it: --max-token, --token-dim, --secret-name."""

_ASSIGNMENT = re.compile(r"^([-+]*[\w.:-]+)=(.*)$", re.DOTALL)
_IN_URL = re.compile(r"(\b[a-z][\w+.-]*://[^\s/:@]*):[^\s/@]+@", re.IGNORECASE)
_PARAMETER = re.compile(r"([?&;]([\w.-]+)=)[^\s&;#]+")
_HEADER = re.compile(r"(\b(?:bearer|basic)\s+)\S+", re.IGNORECASE)
_KNOWN_TOKENS = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{20,}|sk-[\w-]{20,}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[\w-]{30,}|xox[abprs]-[\w-]{10,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]+)"
)
_INLINE = re.compile(r"((?:^|[\s;&('\"])([A-Za-z_][\w.-]*)=)(\"[^\"]*\"|'[^']*'|[^\s;&|'\")]+)")
_OPTION = re.compile(r"((?:^|\s)(--?[A-Za-z][\w.-]*)[ =]+)(\"[^\"]*\"|'[^']*'|[^\s;&|'\"-][^\s;&|'\"]*)")
_LITERAL = re.compile(
    r"(([A-Za-z_][\w.-]*)[\"']?\]?\s*(?::[^=\"']*?)?(?:[:=,]|==)\s*[rbfuRBFU]{0,2})"
    r"(\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?)"
)
"""In source: a name, as an argument, a variable, a key or an annotated field, and the text that it is given."""


def redacted(words: Sequence[object]) -> list[str]:
    """The words of a command line with HIDDEN in the place of each secret value."""
    hidden: list[str] = []
    value_follows, before = False, ""
    for word in map(str, words):
        if value_follows and not word.startswith("--"):
            hidden.append(HIDDEN)
            value_follows, before = False, ""
            continue
        value_follows = word.startswith("-") and "=" not in word and " " not in word and _names_a_secret(word)
        hidden.append(_word(word, is_script=before.endswith("c") and before[:1] == "-" and before[1:2] != "-"))
        before = word
    return hidden


def redacted_code(line: str) -> str:
    """A source line with HIDDEN in the place of each secret text: what a name with a secret is given, and tokens."""
    if '"' in line or "'" in line:
        line = _LITERAL.sub(_if_secret, line)
    return _without_tokens(line)


def without_scripts(words: Sequence[str]) -> list[str]:
    """The words of a command line with HIDDEN in the place of a program that is one of them: `python -c PROGRAM`."""
    return [HIDDEN if before == "-c" else word for before, word in zip(["", *words], words)]


def _word(word: str, *, is_script: bool) -> str:
    assigned = None if is_script else _ASSIGNMENT.match(word)
    if assigned and _names_a_secret(assigned.group(1)) and assigned.group(2):
        return f"{assigned.group(1)}={HIDDEN}"
    if is_script or any(letter in word for letter in " \n\t;"):
        word = _INLINE.sub(_if_secret, word)
        word = _OPTION.sub(_if_secret, word)
    return _without_tokens(word)


def _without_tokens(word: str) -> str:
    """Text without the passwords of URLs and what looks like a token. Most text has nothing that could be one."""
    if "://" in word:
        word = _IN_URL.sub(rf"\1:{HIDDEN}@", word)
    if "=" in word:
        word = _PARAMETER.sub(lambda told: told.group(1) + HIDDEN if _names_a_secret(told.group(2)) else told[0], word)
    if " " in word:
        word = _HEADER.sub(rf"\1{HIDDEN}", word)
    return _KNOWN_TOKENS.sub(HIDDEN, word)


def _if_secret(found: re.Match[str]) -> str:
    return found.group(1) + HIDDEN if _names_a_secret(found.group(2)) else found.group(0)


def _names_a_secret(name: str) -> bool:
    """Whether an argument or a variable of this name holds a secret: its last words say what it is."""
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)
    words = [word for word in re.split(r"[^a-z0-9]+", spaced.lower()) if word]
    if not words or words[-1] in _NOT_SECRET or words[0] in ("no", "max", "min", "num", "n", "use", "per"):
        return False
    if words[-1] in ("key", "keys"):
        return len(words) > 1 and words[-2] in _KEYS
    return words[-1] in _SECRET_WORDS or (len(words) > 1 and words[-2] in ("password", "secret"))
