"""What the Markdown extension makes of a page, and that an author's slips fail the build."""

from __future__ import annotations

import html
import re

import pytest
from markdown import Markdown

from press import glossary, page_extension, scan
from tools import font

EXTENSIONS = [
    "attr_list",
    "def_list",
    "md_in_html",
    "tables",
    "toc",
    "pymdownx.arithmatex",
    "pymdownx.superfences",
    "press.page_extension",
]
SETTINGS = {"pymdownx.arithmatex": {"generic": True}}
VARIANT = 0xFE00  # follows a calligraphic letter and has no shape of its own
TERMS = """
# Glossary

all-reduce { #all-reduce data-also="all_reduce, AllReduce" }
:   Every rank contributes a tensor,
    and every rank receives the `sum`.

rank { #rank }
:   A process's number.
"""


@pytest.fixture
def terms(tmp_path, monkeypatch):
    """Let the extension read a glossary of two terms."""
    source = tmp_path / "glossary.md"
    source.write_text(TERMS)
    monkeypatch.setattr(glossary.TermLinks, "source", source)


@pytest.fixture(autouse=True)
def _no_old_problems():
    page_extension.problems()


def convert(text: str) -> str:
    return Markdown(extensions=EXTENSIONS, extension_configs=SETTINGS).convert(text)


def test_inline_and_display_math_become_mathml():
    page = convert("Let \\(p\\) be.\n\n\\[ \\frac{p-1}{p} \\]\n")

    assert "<math><mi>p</mi></math>" in page
    assert '<div class="math"><math display="block"><mfrac>' in page
    assert "\\(" not in page
    assert page_extension.problems() == []


def test_mathml_is_not_converted_twice():
    """markdown-exec converts what a fence printed, and the page converts the result again."""
    once = convert("\\(p\\)\n\n| a |\n|--|\n| \\(q\\) |\n")
    md = Markdown(extensions=EXTENSIONS, extension_configs=SETTINGS)

    assert md.postprocessors["course_pages"].run(once) == once


def test_tex_inside_code_stays_as_it_is():
    page = convert("`\\(p\\)`\n\n```\n\\[ \\nope \\]\n```\n")

    assert "<math" not in page
    assert page_extension.problems() == []


@pytest.mark.parametrize(
    ("tex", "reason"),
    [
        ("\\fracc{1}{2}", 'Unknown command "\\fracc".'),
        ("\\frac{1}", "Expected argument"),
        ("\\left( x", "Expected closing token"),
        ("a_b_c", "Duplicate subscript"),
    ],
)
def test_a_tex_typo_is_reported_and_shown(tex, reason):
    page = convert(f"Text \\({tex}\\) text.")
    (problem,) = map(str, page_extension.problems())

    assert reason in problem
    assert tex in problem
    assert 'class="page-problem"' in page
    assert page_extension.problems() == []


def test_the_shipped_font_has_every_character_of_the_courses_formulas():
    """A character from another font has other weight, and its brackets do not stretch."""
    known = font.characters(font.BLOCKS)
    formulas = [
        (source.name, re.sub(r"<[^>]*>|\s", "", formula))
        for source in glossary.SOURCE.parent.rglob("*.md")
        for formula in re.findall(
            r"<math.*?</math>", convert(scan.file(source, source.parent).prose), re.DOTALL
        )
    ]

    assert formulas
    for name, text in formulas:
        unknown = {c for c in html.unescape(text) if ord(c) not in known and ord(c) != VARIANT}
        assert not unknown, f"{name}: {unknown} in {text}: see site/tools/font.py"


def test_math_in_a_heading_is_refused():
    convert("## Cost \\(2S\\)\n")

    assert [str(problem) for problem in page_extension.problems()] == [
        "a page: math in a heading: 2S (contents lists show TeX; use words)"
    ]


@pytest.mark.parametrize(
    "image", ["![](ring.svg)", '<img src="ring.svg">', '<img alt=" " src="ring.svg">']
)
def test_an_image_without_a_text_is_refused(image):
    convert(image)

    (problem,) = map(str, page_extension.problems())
    assert "the image ring.svg has no text" in problem


@pytest.mark.parametrize(
    "image", ["![A ring](ring.svg)", '<img role="presentation" alt="" src="x.svg">']
)
def test_an_image_with_a_text_or_marked_as_decoration_is_not(image):
    convert(image)

    assert page_extension.problems() == []


def test_every_table_is_in_a_box_that_can_scroll():
    page = convert("| a |\n|--|\n| 1 |\n\n<table><tr><td>2</td></tr></table>\n")

    assert page.count('<div class="wide"><table class="data">') == 2
    assert page.count("</table></div>") == 2


def test_the_glossary_page_is_read_as_terms():
    first, second = glossary.read_terms(TERMS)

    assert first.also == ("all_reduce", "AllReduce")
    assert first.definition == "Every rank contributes a tensor, and every rank receives the sum."
    assert (second.name, second.anchor) == ("rank", "rank")


def test_every_entry_of_the_courses_glossary_is_read():
    """An entry that is not laid out as `glossary` wants it would silently have no tooltip."""
    source = glossary.SOURCE.read_text()
    written = [line for line in source.splitlines() if line.startswith(":   ")]

    assert len(glossary.read_terms(source)) == len(written) > 0


@pytest.mark.usefixtures("terms")
def test_a_term_is_linked_once_where_it_is_first_used():
    page = convert("# Each rank\n\nAll ranks call all_reduce. A rank waits for the AllReduce.\n")

    assert page.count('class="term"') == 2
    assert 'All <span class="term"><a aria-describedby="definition-rank"' in page
    assert ">ranks</a>" in page
    assert 'id="definition-all-reduce" role="tooltip">Every rank contributes' in page


@pytest.mark.usefixtures("terms")
@pytest.mark.parametrize(
    "text",
    [
        "# A rank\n",
        "`rank`",
        "[the rank](#x)",
        "| rank |\n|--|\n| rank |\n",
        "ranking and frank",
        "```\nrank\n```\n",
        "rank { #rank }\n:   A rank's number.\n",
    ],
)
def test_no_term_is_linked_in_headings_code_links_tables_other_words_or_the_glossary(text):
    assert 'class="term"' not in convert(text)


@pytest.mark.usefixtures("terms")
def test_the_text_around_terms_survives():
    source = "A rank, *its rank* and `x`: all-reduce, rank; **end** of rank.\n"

    assert without_terms(convert(source)) == Markdown().convert(source)


def without_terms(page: str) -> str:
    page = re.sub(r"<span data-search-exclude.*?</span>", "", page)
    return re.sub(r'<span class="term"><a [^>]*>(.*?)</a></span>', r"\1", page)


@pytest.mark.parametrize(
    ("slip", "said"),
    [
        ("Text \\(\\fracc{1}{2}\\).", 'content/index.md:6: Unknown command "\\fracc".'),
        ("![](assets/favicon.svg)", "content/index.md:6: the image assets/favicon.svg has no text"),
        ("## Cost \\(2S\\)", "content/index.md:6: math in a heading: 2S"),
    ],
)
def test_a_slip_fails_the_build_with_file_and_line(copy_of_site, slip, said):
    copy_of_site.write(f"---\ntitle: T\n---\n# A page\n\n{slip}\n")
    built = copy_of_site.build("-q")

    assert built.status != 0
    assert said in built.said
    assert not (built.public / "index.html").exists()


def test_code_keeps_its_text_and_leaves_the_search_index_while_output_stays_in_it():
    text = 'x = dist.get_rank() + 1 if "a" in s else None  # a note\nprint(f"rank {x:>3} of {p}")'
    source = f"```python\n{text}\n```\n"
    page = Markdown(
        extensions=[*EXTENSIONS, "pymdownx.highlight"], extension_configs=SETTINGS
    ).convert(source)
    output = '<div class="fence-output"><pre><code>RuntimeError</code></pre></div>'

    assert "<pre data-search-exclude>" in page
    assert not re.search('class="(n|o|ow|p|kc|sa|si)"', page)
    assert re.findall("<u>(.*?)</u>", page) == ['"a"', '"rank {', ":&gt;3} of {", '}"']
    others = [("i", "1"), ("b", "if"), ("b", "else"), ("var", "print")]
    assert re.findall("<(b|i|em|var)>(.*?)</", page) == others
    assert re.findall('<span class="(.*?)"', page) == ["c1"]
    assert text in html.unescape(re.sub(r"<[^>]*>", "", page))
    assert page_extension.lighter_code(output) == output


def test_a_mark_stays_on_the_line_of_its_claim():
    page = convert('It fails. <span class="mark mark-judgement">judgement</span>')

    assert 'It fails.&nbsp;<span class="mark' in page
