"""Marks behind claims: what an author may write, and what becomes of it."""

import markdown
import pytest

from press import evidence, page_extension, scan

PAGE = """# A page

The ring holds. [[ran:ring]] So says the paper. [[src:ddp-paper]] [[src:reducer]]
I think so. [[judged]] NCCL too. [[not-run]] Again the paper. [[src:ddp-paper]]

```python exec="on" id="ring"
print()
```

[[sources]]
"""


class File:
    """Stands for MkDocs' file of a page."""

    def __init__(self, text):
        self.src_uri, self.content_string = "page.md", text


class Links(markdown.treeprocessors.Treeprocessor):
    """Stands for MkDocs' processor that knows the page's file."""


@pytest.fixture
def convert():
    def convert(text):
        md = markdown.Markdown(extensions=["fenced_code", evidence.makeExtension()])
        links = Links(md)
        links.file = File(text)
        md.treeprocessors.register(links, "relpath", 0)
        return md.convert(text)

    page_extension.problems()
    yield convert
    page_extension.problems()


def test_each_mark_is_said_in_words(convert):
    html = convert(PAGE)

    assert '<a class="mark mark-executed" href="#fence-ring"' in html
    assert ">source 1</a>" in html
    assert ">source 2</a>" in html
    assert '<span class="mark mark-judgement">judgement</span>' in html
    assert '<span class="mark mark-not-executed">not executed here</span>' in html
    assert page_extension.problems() == []


def test_sources_are_numbered_by_first_use_and_listed_once(convert):
    html = convert(PAGE)

    assert html.count(">source 1</a>") == 2
    assert html.index('id="source-ddp-paper"') < html.index('id="source-reducer"')
    assert "(accessed 2026-" in html


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ("[[ran:rign]]", "no fence of this page has the id 'rign'"),
        ("[[src:nobody]]", "no source is named 'nobody'"),
        ("[[jugded]]", "is no mark; write [[ran:FENCE]]"),
        ("[[ran]]", "no fence of this page has the id ''"),
    ],
)
def test_a_wrong_mark_is_a_fault_with_its_line(convert, wrong, hint):
    convert(f"One line.\n\nA claim. {wrong}\n")

    (problem,) = map(str, page_extension.problems())
    assert problem.startswith("content/page.md:3: ")
    assert hint in problem


def test_code_is_left_alone(convert):
    assert "<code>[[judged]]</code>" in convert("Write `[[judged]]`.")


def test_a_source_defined_twice_is_refused(tmp_path):
    (tmp_path / "sources").mkdir()
    for name in ("a", "b"):
        entry = 'accessed = "2026-01-01"\n[x]\ntitle = "t"\nurl = "https://x"\n'
        (tmp_path / f"sources/{name}.toml").write_text(entry)

    with pytest.raises(ValueError, match="'x' is defined before"):
        evidence.sources(tmp_path)


HIDDEN = """# A page

It holds. [[ran:ghost]]

````md
```python exec="on" id="ghost"
1 / 0
```
````
"""


def test_an_example_in_a_longer_fence_proves_nothing(convert):
    """It never runs, though a line of it looks like the header of a fence."""
    convert(HIDDEN)

    (problem,) = map(str, page_extension.problems())
    assert "no fence of this page has the id 'ghost'" in problem
    assert len(evidence.faults(scan.text(HIDDEN, "content/page.md"), "content/page.md")) == 1


def test_wrong_marks_are_known_from_the_text_alone():
    page = "---\na: 1\n---\n" + PAGE.replace("[[ran:ring]]", "[[ran:rnig]]")
    page += "\nWrite `[[ran:x]]`. <!--\n[[src:y]] -->\n\n```text\n[[jugded]]\n```\n\n[[jugded]]\n"
    found = [str(fault) for fault in evidence.faults(scan.text(page, "x.md"), "x.md")]

    assert [fault.partition(" is no mark")[0].partition(": no")[0] for fault in found] == [
        "x.md:6: [[ran:rnig]]",
        "x.md:22: [[jugded]]",
    ]


def test_a_source_marked_in_a_code_block_only_is_not_listed():
    page = "[[src:reducer]]\n\n```text\n[[src:ddp-paper]]\n```\n"

    assert evidence.used_sources(page) == {"reducer": 1}
