"""Every link of a built site leads somewhere, whoever wrote it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from press import links, rendered

FENCE = '<div class="fence" data-at="content/a.md:7"><div><p>x</p></div><a href="{}">go</a></div>'


def said(address: str, base: str = "/", page: str = "sub/a.html") -> str:
    """Return the report on one link of a small site."""
    html = {
        page: f'<p id="here"><a name="old"></a></p><a href="{address}">the\n words</a>',
        "sub/b.html": '<h2 id="far-away">x</h2>',
        "index.html": "",
        "with/index.html": "",
    }
    pages = {name: rendered.read(text) for name, text in html.items()}
    site = links.BuiltSite({*pages, "sub/x y.png"}, pages, base)
    return "\n".join(map(str, links.problems(site, {page: "content/sub/a.md"})))


@pytest.mark.parametrize(
    "address",
    [
        "#here", "#old", "#", "#top", "b.html", "b.html#far-away", "../index.html", "../",
        "x%20y.png", "/sub/b.html", "../with/", "https://example.org/x", "mailto:a@b.c",
        "//example.org/x", "",
        "b.html?query#far-away",
    ],
)  # fmt: skip
def test_what_leads_somewhere_passes(address):
    assert said(address) == ""


@pytest.mark.parametrize(
    ("address", "wrong", "todo"),
    [
        ("#her", "sub/a.html has no anchor #her", "#here"),
        ("b.html#faraway", "sub/b.html has no anchor #faraway", "#far-away"),
        ("b.md#far-away", "there is no file sub/b.md on the site", "b.html#far-away"),
        ("../b.html", "there is no file b.html on the site", "b.html"),
        ("/b.html", "there is no file b.html on the site", "b.html"),
        ("../../index.html", "there is no file ../index.html on the site", "../index.html"),
        ("x.png", "there is no file sub/x.png on the site", "x y.png"),
    ],
)
def test_what_does_not_is_told_with_page_words_target_and_next_step(address, wrong, todo):
    assert said(address) == (
        f"content/sub/a.md: the link 'the words' leads to {address}, and {wrong}\n"
        f"    -> did you mean {todo}?"
    )


def test_an_address_from_the_root_is_below_where_the_site_is_published():
    assert said("/course/sub/b.html", base="/course/") == ""
    assert "there is no file" in said("/other/sub/b.html", base="/course/")


@pytest.mark.parametrize(
    "element", ['<img src="x">', '<script src="x"></script>', '<link href="x">']
)
def test_what_a_page_loads_must_be_there_as_well(element):
    page = rendered.read(element)
    (problem,) = links.problems(links.BuiltSite({"a.html"}, {"a.html": page}), {})

    assert str(problem).startswith("a.html: the link '<")


def test_a_link_that_a_fence_prints_is_reported_with_the_fence():
    page = rendered.read(FENCE.format("x.md") + '<a href="y.md">after</a>')
    found = links.problems(
        links.BuiltSite({"a.html"}, {"a.html": page}), {"a.html": "content/a.md"}
    )

    assert [problem.at for problem in found] == ["content/a.md:7", "content/a.md"]


def test_a_dead_link_that_a_fence_prints_fails_the_build(copy_of_site):
    page = "# A page\n\n## A part\n\n" + '```python exec="on"\nprint("{}")\n```\n'
    copy_of_site.write(page.format("[good](index.html#a-part)"))
    good = copy_of_site.build("-q")
    copy_of_site.write(page.format("[to](index.md#a-part) [fro](index.html#a-prat)"))
    bad = copy_of_site.build("-q")

    assert good.status == 0, good.said
    assert bad.status == 1
    assert "content/index.md:5: the link 'to' leads to index.md#a-part, and there is" in bad.said
    assert "    -> did you mean index.html#a-part?" in bad.said
    assert (
        "the link 'fro' leads to index.html#a-prat, and index.html has no anchor #a-prat"
        in bad.said
    )
    assert "2 problems; no page was written." in bad.said


def test_the_gate_as_a_command_looks_at_all_html_of_a_site(tmp_path):
    content, public = tmp_path / "content", tmp_path / "public"
    content.mkdir()
    public.mkdir()
    (public / "executions.json").write_text(json.dumps([]))
    (public / "404.html").write_text('<link href="/gone.css">')

    def check():
        command = [sys.executable, "-m", "press.gate", content, public]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert "404.html: the link '<link>' leads to /gone.css" in check().stdout
    (public / "gone.css").touch()
    assert check().returncode == 0, check().stdout
