"""Pages outside the site have links that lead somewhere, and change fragments have names that a release can read."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted((*ROOT.glob("*.md"), *(ROOT / folder / "README.md" for folder in ("bench", "changes", "scenarios"))))
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
FRAGMENT = re.compile(r"[a-z0-9-]+\.(added|changed|fixed|removed)\.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_lead_to_files(page: Path) -> None:
    links = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_first_page_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 60


def test_change_fragments_have_a_topic_and_a_kind() -> None:
    names = {path.name for path in (ROOT / "changes").iterdir()} - {"README.md"}
    assert {name for name in names if not FRAGMENT.fullmatch(name)} == set()


def test_every_bench_and_every_scenario_is_described() -> None:
    for folder in ("bench", "scenarios"):
        text = (ROOT / folder / "README.md").read_text(encoding="utf-8")
        scripts = {path.name for path in (ROOT / folder).glob("*.py")}
        assert {name for name in scripts if name not in text} == set()
