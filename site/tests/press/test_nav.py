"""The navigation and some pages take in whatever files there are, and nothing but those."""

from __future__ import annotations

import pytest
import yaml

from press import nav, scan, snippets
from press.build import Build, BuildError
from press.project import CONTENT, ROOT

NAV = [
    "index.md",
    {"Museum": ["museum/index.md", {"Loud": "museum/loud.md"}, "museum/*.md"]},
    {"Glossary": "glossary.md"},
]


@pytest.fixture
def content(tmp_path):
    """Lay out the pages that NAV names, without any that it does not."""
    for name in ("index", "museum/index", "museum/loud", "glossary"):
        path = tmp_path / f"content/{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("# A page\n")
    return tmp_path / "content"


def test_a_pattern_stands_for_the_pages_that_nobody_names(content):
    museum = NAV[1]["Museum"]
    assert nav.expanded(NAV, content) == [NAV[0], {"Museum": museum[:2]}, NAV[2]]

    for name in ("99_toy", "27_sharded"):
        (content / f"museum/{name}.md").write_text("# More\n")
    more = ["museum/27_sharded.md", "museum/99_toy.md"]

    assert nav.expanded(NAV, content) == [NAV[0], {"Museum": museum[:2] + more}, NAV[2]]


def test_the_pattern_of_this_site_is_expanded():
    class Loader(yaml.SafeLoader):
        """Reads mkdocs.yml, whose own tags mean nothing here."""

    Loader.add_multi_constructor("!", lambda loader, tag, node: None)
    written = yaml.load((ROOT / "mkdocs.yml").read_text(), Loader)["nav"]  # noqa: S506
    text = str(nav.expanded(written, CONTENT))

    assert "*" in str(written)
    assert "*" not in text


PAGE = """# Symptoms

- one

--8<-- "content/symptoms/*.md"

## After
"""


def test_a_page_takes_in_the_files_there_are(content):
    page = content / "symptoms.md"
    page.write_text(PAGE)
    line = '--8<-- "content/symptoms/{}.md"\n'

    assert snippets.expanded(PAGE, content.parent) == PAGE.replace(line.format("*"), "")

    (content / "symptoms").mkdir()
    for name in ("99_toy", "27_sharded"):
        (content / f"symptoms/{name}.md").write_text(f"- {name}\n")
    both = line.format("27_sharded") + line.format("99_toy")

    assert snippets.expanded(PAGE, content.parent) == PAGE.replace(line.format("*"), both)
    assert "- one\n\n- 27_sharded\n- 99_toy\n\n## After" in snippets.whole(page, content.parent)


def test_a_part_is_no_page(content):
    (content / "symptoms.md").write_text(PAGE)
    (content / "symptoms").mkdir()
    (content / "symptoms/99_toy.md").write_text('```python exec="on" ranks="none"\n```\n')

    assert "content/symptoms.md" in scan.pages(content)
    assert "content/symptoms/99_toy.md" not in scan.pages(content)


def test_a_build_refuses_a_module_without_its_programs_before_anything_runs(content):
    root = content.parent
    (root / "site/modules/99_toy").mkdir(parents=True)
    (root / "site/modules/99_toy/sources.toml").write_text('accessed = "2026-11-30"\n')
    page = content / "courses/pytorch/99_toy.md"
    page.parent.mkdir(parents=True)
    page.write_text("# Toy\n")

    with pytest.raises(BuildError) as refused:
        Build(root).begin()
    said = str(refused.value)
    assert "module 99 has no content/courses/pytorch/code/99_toy.py: its lab" in said
    assert "module 99 has no content/courses/pytorch/code/99_train.py: its training script" in said
    assert said.count("module 99 has no") == 2
