"""The card of a finding: what is wrong, where, what to do and how much it saves, on a few lines.

A terminal and Markdown draw the same cards. A card has at most WORDS words besides code: facts are left out first.
"""

from dataclasses import dataclass, replace
from textwrap import dedent

from stepscope.core.errors import DEVICE_WORK
from stepscope.core.finding import Advice, Finding, Place
from stepscope.core.plural import plural
from stepscope.core.report import Overlap
from stepscope.render.commands import path_argument, with_path
from stepscope.render.document import Report
from stepscope.render.format import (
    basis_texts,
    code_lines,
    counted,
    figure_text,
    gain_text,
    plain,
    quantity,
    title_text,
)

__all__ = [
    "TOP",
    "WORDS",
    "Card",
    "SourceLine",
    "cards",
    "footer",
    "overlap_text",
    "rest_text",
    "unchecked_text",
    "word_count",
]

TOP = 3
"""Findings that have a card: what a person takes in at once, and what saves the most time."""

WORDS = 45
"""Words of a card besides code and figures: about 15 seconds of reading."""

_FACTS = 3  # the cost, its cause and the setting at fault
_WHOLE_CODE = 4  # lines of code that a card shows whole
_FIX_LIMIT = 400
_WHOLE = 0.995  # of a step: it reads "100 %"
_CODE_LIMIT = 400  # letters of a line of code: what a wide terminal shows of one


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A kept line of the user's source; `marked` is the one that the finding is about."""

    number: int
    text: str
    marked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One finding as texts that are safe to show.

    `gain`, `share`, `fix` and `trial` may be empty, `place` None. `source` is dedented. `more_code` counts the lines
    of code that are left out. `why` has one to three facts, `basis` says how the gain was predicted; `trial` is the
    command that tries the advice.
    """

    number: int
    title: str
    gain: str
    place: Place | None
    share: str
    source: tuple[SourceLine, ...]
    fix: str
    code: tuple[str, ...]
    language: str
    more_code: int
    why: tuple[str, ...]
    basis: str
    trial: str


def cards(report: Report) -> tuple[Card, ...]:
    """The cards of the findings with the largest gains; a command that tries several of them stands at the first."""
    drawn: list[Card] = []
    for number, block in enumerate(report.findings[:TOP], 1):
        card = _card(number, block.finding, report)
        told = any(card.trial == other.trial for other in drawn)
        drawn.append(replace(card, trial="" if told else card.trial))
    return tuple(drawn)


def word_count(*texts: str) -> int:
    """Words that are read: what has no letter is a figure or a sign."""
    return sum(any(letter.isalpha() for letter in word) for text in texts for word in text.split())


def rest_text(report: Report) -> str:
    """`2 more findings: --full`, or nothing."""
    rest = len(report.findings) - TOP
    return f"{counted(rest, 'more finding')} in the full report" if rest > 0 else ""


def overlap_text(overlap: Overlap, report: Report) -> str:
    """`1 and 2 overlap: together at most 71 %`; findings that may be added up do not overlap.

    Empty: none is shown, or together they may save the whole step, which tells nothing.
    """
    shown = [position for position in overlap.findings if position < TOP]
    whole = 0 < _WHOLE * overlap.step_ns <= overlap.most_ns
    if not shown or len(overlap.findings) < 2 or whole:
        return ""
    gains = [gain for position in overlap.findings if (gain := report.findings[position].finding.gain)]
    names = _listed([str(position + 1) for position in overlap.findings])
    verb = " overlap" if sum(gain.high_ns for gain in gains) > overlap.most_ns else ""
    share = f"{quantity(overlap.most_ns / overlap.step_ns, 'ratio')} " if overlap.step_ns else ""
    most = quantity(overlap.most_ns, "ns")
    together = f"{share}({most} per step)" if report.of_steps else f"{most} of the recorded time"
    return f"{names}{verb}: together at most {together}"


def footer(report: Report) -> tuple[str, ...]:
    """What was checked, and the commands that show more; drawn with ` · ` between them.

    A run with steps, a verdict and no findings says in its summary what was checked.
    """
    path = path_argument(report.run.path)
    found = {block.rule for block in report.findings}
    told = []
    if report.checked and (found or not report.of_steps or report.verdict.bound == "unknown"):
        clear = len(set(report.checked) - found)
        told.append(f"{counted(clear, 'check')} clear{unchecked_text(report)}")
    return (*told, f"stepscope report {path} --full", f"stepscope view {path}")


def unchecked_text(report: Report) -> str:
    """`, 3 need more data; 17 others are for accelerators`, or nothing."""
    about_devices = sum(unchecked.missing == DEVICE_WORK for unchecked in report.unchecked)
    lacking = len(report.unchecked) - about_devices
    more = f", {lacking} {plural(lacking, 'needs', 'need')} more data" if lacking else ""
    if not about_devices:
        return more
    return f"{more}; {about_devices} {plural(about_devices, 'other is', 'others are')} for accelerators"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _card(number: int, finding: Finding, report: Report) -> Card:
    place = finding.where[0] if finding.where else None
    advice = finding.advice[0] if finding.advice else Advice(text="")
    code = [with_path(line, report.path) for line in code_lines(advice.code)]
    shown = tuple(code if len(code) <= _WHOLE_CODE else code[:1])
    return _within_budget(
        Card(
            number=number,
            title=title_text(finding.title),
            gain=gain_text(finding.gain, of_steps=report.of_steps) if finding.gain else "",
            place=place,
            share=_share(place),
            source=_source(place),
            fix=with_path(_first_sentence(plain(advice.text, limit=_FIX_LIMIT)), report.path),
            code=shown,
            language=advice.language,
            more_code=len(code) - len(shown),
            why=_facts(finding, report),
            basis="",
            trial=plain(finding.trial, limit=_FIX_LIMIT),
        ),
        basis_texts(finding.gain) if finding.gain else ("", "", ""),
    )


def _facts(finding: Finding, report: Report) -> tuple[str, ...]:
    """The first figures; of which ranks, where headline and bar are of another one."""
    facts = tuple(f"{plain(fact.label)} {figure_text(fact)}" for fact in finding.evidence[:_FACTS])
    own, told = finding.ranks, report.verdict.rank
    if not facts or not own or told is None or told in own or len(report.ranks) < 2:
        return facts
    of = f"rank {own[0]}" if len(own) == 1 else f"{len(own)} ranks"
    return (f"{of}: {facts[0]}", *facts[1:])


def _within_budget(card: Card, bases: tuple[str, str, str]) -> Card:
    """The card with as many facts as its words allow, one at least; a fix that is longer still is cut.

    What goes first: brackets of how the gain was predicted, the third fact, the rest of how, the second fact.
    """
    symbol = plain(card.place.symbol) if card.place else ""
    fixed = word_count(card.title, card.gain, symbol, card.share) + (2 if card.place else 0)  # file, "in"
    whole, brief, method = bases
    for basis, facts in ((whole, _FACTS), (brief, _FACTS), (brief, 2), (method, 2), (method, 1)):
        card = replace(card, basis=basis, why=card.why[:facts])
        room = WORDS - fixed - word_count(card.basis, *card.why)
        if word_count(card.fix) <= room:
            return card
    return replace(card, fix=_cut(card.fix, max(room, 1)))


def _cut(words: str, most: int) -> str:
    """The first words, `most` that are read."""
    if word_count(words) <= most:
        return words
    kept: list[str] = []
    for word in words.split():
        if word_count(*kept, word) > most:
            break
        kept.append(word)
    return f"{' '.join(kept)} …"


def _first_sentence(words: str) -> str:
    """Up to the first full stop between two sentences; one within a name or a number is none."""
    sentence, _, _ = words.strip().partition(". ")
    return sentence.removesuffix(".").removesuffix(":")


def _share(place: Place | None) -> str:
    if place is None or place.share is None:
        return ""
    return f"{quantity(place.share, 'ratio')} of {plain(place.of)}" if place.of else quantity(place.share, "ratio")


def _source(place: Place | None) -> tuple[SourceLine, ...]:
    """The line and its neighbors, as far as they were kept; without those the line itself, if it was recorded."""
    if place is None:
        return ()
    numbered = {place.first + at: text for at, text in enumerate(place.around)}
    if place.line not in numbered:
        text = place.text.strip()
        return (SourceLine(place.line, plain(text, _CODE_LIMIT), True),) if text else ()
    near = [number for number in range(place.line - 1, place.line + 2) if number in numbered]
    texts = dedent("\n".join(plain(numbered[number].expandtabs(4).rstrip(), _CODE_LIMIT) for number in near)).split(
        "\n"
    )
    lines = zip(near, texts, strict=True)
    return tuple(SourceLine(number, text, number == place.line) for number, text in lines if text.strip())
