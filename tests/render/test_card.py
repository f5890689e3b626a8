"""The card of a finding: few words, the user's own line, and commands that can be pasted."""

from dataclasses import replace

import pytest

from stepscope.core.errors import DEVICE_WORK
from stepscope.core.finding import Advice, Evidence, Finding, Gain, Place, Title
from stepscope.core.report import FindingBlock, Overlap
from stepscope.render.card import TOP, WORDS, Card, SourceLine, cards, footer, overlap_text, rest_text, word_count
from stepscope.render.document import Report, Unchecked
from stepscope.report.assemble import first_screen
from stepscope.report.diagnose import RULES

from ..examples import example

MS = 1_000_000


def changed(report: Report, **fields: object) -> Card:
    """The first card of the report with another first finding."""
    block = report.findings[0]
    finding = replace(block.finding, **fields)  # type: ignore[arg-type]
    return cards(replace(report, findings=(FindingBlock(block.rule, finding),)))[0]


def words(card: Card) -> int:
    """Words as a reader counts them, code and commands apart."""
    place = f"{card.place.file}:{card.place.line} in {card.place.symbol}" if card.place else ""
    return word_count(card.title, card.gain, place, card.share, card.fix, *card.why, card.basis)


def test_three_findings_have_a_card(report: Report) -> None:
    found = cards(report)
    assert [card.number for card in found] == [1, 2, 3]
    assert found[0].title == "Problem 1 takes 26 ms"
    assert found[0].gain == "could save 8–13 % (12–20 ms per step)"
    assert found[0].fix == "Load in workers"
    assert found[0].why == ("data wait 26 ms", "share of the step 63 %")
    assert found[0].basis == "estimated: the wait without loading"
    assert rest_text(report) == "2 more findings in the full report"
    assert rest_text(replace(report, findings=report.findings[:TOP])) == ""


def test_a_card_shows_short_code_whole_and_the_first_line_of_long_code(report: Report) -> None:
    first, second, _ = cards(report)
    assert first.code == second.code == ("DataLoader(", "    dataset,", "    num_workers=2,", ")")
    assert second.more_code == 0
    long = changed(report, advice=(Advice(text="Do", code="a\nb\nc\nd\ne"),))
    assert (long.code, long.more_code) == (("a",), 4)


def test_kept_lines_stand_around_the_marked_one(report: Report) -> None:
    around = ("    def f(self):", "        with open(p) as f:", "            x = json.load(f)", "", "        return x")
    place = Place(file="a.py", line=45, share=0.57, of="loading time", first=43, around=around)
    card = changed(report, where=(place,))
    assert card.source == (SourceLine(44, "with open(p) as f:", False), SourceLine(45, "    x = json.load(f)", True))
    assert card.share == "57 % of loading time"


def test_a_line_that_was_not_kept_is_shown_as_recorded(report: Report) -> None:
    place = Place(file="a.py", line=45, text="  x = 1 ", first=80, around=("no",))
    assert changed(report, where=(place,)).source == (SourceLine(45, "x = 1", True),)
    assert changed(report, where=(Place(file="a.py", line=45),)).source == ()
    assert changed(report, where=()).place is None


@pytest.mark.parametrize(
    ("words", "confidence", "told"),
    [
        ("simulated: Resize 2× to 10× faster", "structural", "simulated: Resize 2× to 10× faster"),
        ("measured collection time", "structural", "measured collection time"),
        ("GPU idle time", "structural", "estimated: GPU idle time"),
        ("fused kernel", "benchmarked", "benchmarked: fused kernel"),
        ("published peaks", "table", "estimated: published peaks"),
    ],
)
def test_what_a_gain_rests_on(report: Report, words: str, confidence: str, told: str) -> None:
    gain = Gain(low_ns=10 * MS, high_ns=30 * MS, step_ns=100 * MS, basis=words, confidence=confidence)  # type: ignore[arg-type]
    assert changed(report, gain=gain).basis == told
    assert (changed(report, gain=None).gain, changed(report, gain=None).basis) == ("", "")


def test_facts_go_before_a_card_has_too_many_words(report: Report) -> None:
    facts = tuple(Evidence(label="a long name of a fact", value=1, unit="count", source="s") for _ in range(3))
    card = changed(report, evidence=facts, advice=(Advice(text="Do this and that. " * 9),))
    assert len(card.why) == 3
    card = changed(report, evidence=facts, advice=(Advice(text="do it " * 30),))
    assert (len(card.why), card.fix.endswith(" …")) == (1, True)
    assert words(card) <= WORDS


@pytest.mark.parametrize("rule", RULES.names())
def test_no_card_of_any_rule_has_more_words_than_can_be_read(rule: str) -> None:
    found = cards(first_screen(example(rule)))
    assert found
    for card in found:
        assert words(card) <= WORDS, card
        assert card.why
        assert not card.fix.endswith("…"), card.fix


def test_findings_that_overlap_say_what_they_save_together(report: Report) -> None:
    overlap = Overlap((0, 1), 30 * MS, 150 * MS)
    assert overlap_text(overlap, report) == "1 and 2 overlap: together at most 20 % (30 ms per step)"
    assert overlap_text(replace(overlap, findings=(0, 1, 4)), report).startswith("1, 2 and 5 overlap: ")
    assert overlap_text(replace(overlap, most_ns=40 * MS), report).startswith("1 and 2: together at most 27 % ")
    assert overlap_text(replace(overlap, findings=(3, 4)), report) == ""
    without = replace(report, run=replace(report.run, step_ns=None))
    assert overlap_text(overlap, without) == "1 and 2 overlap: together at most 30 ms of the recorded time"


def test_the_footer_counts_checks_and_names_the_next_commands(report: Report) -> None:
    commands = ("stepscope report stepscope-runs/train --full", "stepscope view stepscope-runs/train")
    assert footer(report) == ("0 checks clear, 1 needs more data", *commands)
    device = Unchecked(rule="small-kernels", missing=DEVICE_WORK, how="record on a GPU")
    on_the_cpu = replace(report, unchecked=(*report.unchecked, device))
    assert footer(on_the_cpu)[0] == "0 checks clear, 1 needs more data; 1 other is for accelerators"
    more = replace(report, checked=("a", "b", "input-bound"), unchecked=())
    assert footer(more)[0] == "2 checks clear"
    assert footer(replace(report, findings=())) == commands
    several = replace(report, run=replace(report.run, path="a b"))
    assert footer(several)[1] == "stepscope report 'a b' --full"
    assert footer(replace(report, run=replace(report.run, path="a and 3 more")))[1] == "stepscope report RUN --full"


def test_hostile_names_become_safe_texts(hostile_report: Report) -> None:
    (card,) = cards(hostile_report)
    texts = [card.title, card.gain, card.share, card.fix, *card.code, *card.why, card.basis, card.trial]
    texts += [line.text for line in card.source]
    assert all(len(text) <= 800 and "\x1b" not in text and "\n" not in text and "\u202e" not in text for text in texts)


def test_a_card_is_the_same_every_time(report: Report) -> None:
    assert cards(report) == cards(report)
    unlike: Finding = replace(report.findings[0].finding, title=Title("Other"))
    assert cards(replace(report, findings=(FindingBlock("x", unlike),))) != cards(report)[:1]


def test_a_command_that_tries_several_findings_stands_at_the_first(report: Report) -> None:
    trial = "stepscope tune loader -- python train.py"
    blocks = tuple(replace(block, finding=replace(block.finding, trial=trial)) for block in report.findings)
    assert [card.trial for card in cards(replace(report, findings=blocks))] == [trial, "", ""]
