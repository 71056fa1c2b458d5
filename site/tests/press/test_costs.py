"""A build costs what changed: after each kind of edit just the fences it concerns run again."""

from __future__ import annotations

import json
import shutil

import pytest

from tools.site_copy import ROOT, Site, differences, files

pytestmark = pytest.mark.slow  # builds, one after the other

INDEX = """# A page

A rank waits. [[src:first]] Some prose.

```python exec="on" source="above" result="text" id="alone"
print("one")
```

```python exec="on" source="above" result="text" id="library"
from distlab import ring
print(ring.__doc__)
```

```python exec="on" source="above" result="text" id="loads"
import json
print(json.load(open("content/recording.json")))
```

[[sources]]
"""
OTHER = """# Another page

The ring is on [the other page](index.md).

```python exec="on" source="above" result="text" id="lab"
import runpy
runpy.run_path("content/code/lab.py")
```

```bash exec="on" source="above" result="text" id="shell"
cat content/code/lab.py
```
"""
SOURCE = 'accessed = "2026-01-01"\n[first]\ntitle = "A paper"\nurl = "https://example.org/"\n'
GLOSSARY = "# Glossary\n\nrank { #rank }\n:   A process's number.\n"
FENCES = {"alone", "library", "loads", "lab", "shell"}
EDITS = {  # kind -> file, old, new, what the site then shows, the fences that run again
    "prose": ("content/index.md", "Some prose.", "More prose.", "More prose.", set()),
    "title": ("content/index.md", 'id="alone"', 'id="alone" title="A title"', "A title", set()),
    "template": (
        "site/theme/main.html", "summary_large_image", "summary", 'content="summary"', set()
    ),
    "mkdocs.yml": ("mkdocs.yml", "site_name: ", "site_name: Not ", "<title>Not ", set()),
    "glossary": ("content/glossary.md", "A process's", "One process'", "One process", set()),
    "sources": ("site/sources/first.toml", "A paper", "The paper", "The paper", set()),
    "press": (
        "code/press/formatter.py", 'title = "Output" if', 'title = "Said" if', ">Said", set()
    ),
    "fence": ("content/index.md", 'print("one")', 'print("two")', ">two", {"alone"}),
    "distlab": ("code/distlab/ring.py", '"""', '"""Edited: ', "Edited: ", {"library"}),
    "lab": ("content/code/lab.py", "lab", "edited lab", "edited lab", {"lab", "shell"}),
    "recording": ("content/recording.json", "1", "2", "<code>[2]<", {"loads"}),
}  # fmt: skip
"""In this order, each upon the last. One file of press stands for all that prints pages."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build a small site, cold, with code of its own to edit."""
    site = Site(tmp_path_factory.mktemp("site"))
    (site.folder / "code").unlink()
    shutil.copytree(ROOT / "code", site.folder / "code",
                    ignore=shutil.ignore_patterns("__pycache__"))  # fmt: skip
    for old in (site.folder / "site/sources").glob("*.toml"):
        old.unlink()
    (site.folder / "site/sources/first.toml").write_text(SOURCE)
    pages = {"index.md": INDEX, "other.md": OTHER, "glossary.md": GLOSSARY,
             "code/lab.py": 'print("lab")\n', "recording.json": "[1]"}  # fmt: skip
    for name, text in pages.items():
        site.write(text, name)
    assert ran(site) == FENCES
    return site


def ran(site: Site, **env: str) -> set[str]:
    """Build; return the fences that were run."""
    built = site.build("-q", **env)
    assert built.status == 0, built.said
    entries = json.loads((built.public / "executions.json").read_text())
    assert {entry["id"] for entry in entries} == FENCES
    return {entry["id"] for entry in entries if not entry["cached"]}


def edit(site: Site, kind: str) -> set[str]:
    """Make an edit; return the fences that it concerns."""
    name, old, new, _, concerned = EDITS[kind]
    path = site.folder / name
    text = path.read_text()
    assert old in text, kind
    path.write_text(text.replace(old, new, 1))
    return concerned


def test_each_kind_of_edit_runs_what_it_concerns_and_a_warm_site_equals_a_fresh_one(site):
    """Edits that concern no fence are made together: if one does, its fence is told."""
    public = site.folder / "public"
    assert ran(site) == set()
    before = files(public)
    for kind in (kind for kind in EDITS if not EDITS[kind][-1]):
        assert edit(site, kind) == set()
    assert ran(site) == set()
    for kind in (kind for kind in EDITS if EDITS[kind][-1]):
        concerned = edit(site, kind)
        assert ran(site) == concerned, kind
    warm = files(public)
    assert ran(site, FENCE_FRESH="1") == FENCES

    assert differences(warm, files(public)) == ""
    pages = [b"".join(built.values()).decode(errors="ignore") for built in (before, warm)]
    for kind, (*_, shown, _) in EDITS.items():
        assert [shown in page for page in pages] == [False, True], kind
