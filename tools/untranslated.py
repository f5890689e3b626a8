"""Which titles, headings and labels of sections a language of the page does not translate: they are shown in English.

    python tools/untranslated.py [LANGUAGE]

Nothing fails because of them, and a new section needs no entry. The names are taken from the sections as they are built
of the example of every rule, so that no list of them is kept anywhere.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from stepscope.core.errors import MissingData
from stepscope.core.report import Bars, Block, Heatmap, Lanes, Lines, Table
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.report.assemble import SECTIONS
from stepscope.report.diagnose import RULES

__all__ = ["examples", "names_of", "translations", "untranslated"]

WORDS = Path(__file__).parents[1] / "web-app" / "src" / "words"
_ENTRY = re.compile(r'^    ("(?:[^"\\]|\\.)*"|\w+): "', re.MULTILINE)


def examples() -> Iterator[Run]:
    """The run of each rule's example."""
    for rule in RULES.load().values():
        synth = Synth()
        rule.example(synth, False)
        yield synth.run()


def names_of(run: Run) -> Iterator[str]:
    """Titles, headings and labels of all sections of a run; of labels only those that sections choose."""
    for section in SECTIONS.load().values():
        yield section.title
        try:
            for block in section.build(run):
                yield from filter(None, _names(block))
        except MissingData:
            continue


def _names(block: Block) -> Iterable[str]:
    match block:
        case Table():
            return (block.title, *(heading for heading, _ in block.columns))
        case Bars():
            return (block.title, *(part.label for part in block.parts))
        case Lines():
            return (block.title, block.x, *(line.label for line in block.lines), *(bar.label for bar in block.limits))
        case Heatmap():
            return (block.title, block.x, block.y)
        case Lanes():
            return (block.title, *block.kinds)
        case _:
            return ()


def translations(language: str) -> list[str]:
    """The names that a language translates; `*` in one stands for anything."""
    text = (WORDS / f"{language}.ts").read_text(encoding="utf-8")
    titles = text.partition("titles: {")[2].partition("\n  },")[0]
    return [name.strip('"').replace('\\"', '"') for name in _ENTRY.findall(titles)]


def untranslated(names: Iterable[str], known: Iterable[str]) -> list[str]:
    """The names that none of the translations fits, in order."""
    patterns = [re.compile(".+".join(re.escape(part) for part in name.split("*"))) for name in known]
    return sorted({name for name in names if not any(pattern.fullmatch(name) for pattern in patterns)})


def main(languages: list[str]) -> None:
    """Print what each language lacks."""
    names = {name for run in examples() for name in names_of(run)}
    for language in languages or [file.stem for file in WORDS.glob("*.ts") if file.stem not in ("en", "index")]:
        lacking = untranslated(names, translations(language))
        print(f"{language}: {len(lacking)} of {len(names)} names stay English")
        print("".join(f"  {name}\n" for name in lacking), end="")


if __name__ == "__main__":
    main(sys.argv[1:])
