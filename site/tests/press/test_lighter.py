"""What a finished page leaves to files beside it, and what white space it does without."""

import json

import pytest

from press import lighter, rendered

NAMES = ["ring-all-reduce", "ring-all-reduce", "scaling-calculator"]
LONG = json.dumps(["</script> <!--".replace("</", "<\\/"), *range(1000)])


def figure(name, data):
    script = f'<script type="application/json">{data}</script>'
    return f"<figure><{name}><details open>static</details>{script}</{name}></figure>"


def test_long_data_lie_beside_the_page_and_short_ones_stay(tmp_path):
    page = tmp_path / "26_toy.html"
    text = "".join(map(figure, NAMES, [LONG, LONG + " ", "[1]"]))
    lighter_page = lighter.write(text, page)

    assert sorted(path.name for path in (tmp_path / "26_toy").iterdir()) == [
        "ring-all-reduce-2.json",
        "ring-all-reduce.json",
    ]
    assert (tmp_path / "26_toy/ring-all-reduce-2.json").read_text() == LONG + " "
    assert lighter_page.count("<details open>static</details>") == 3
    assert "[1]" in lighter_page
    assert LONG not in lighter_page


def test_the_gate_sees_the_file_that_a_figure_names():
    """So a figure whose data are not there is a dead link, and fails the build."""
    page, files = lighter.apart(figure("ring-all-reduce", LONG), "26_toy")

    assert {link.address for link in rendered.read(page).links} == set(files)


@pytest.mark.parametrize(
    ("text", "squeezed"),
    [
        ("<ul>\n  <li>\n    a\n  </li>\n</ul>\n", "<ul><li>a</li></ul>"),
        ("<p>one\n   two  <em>a</em> <b>b</b></p>", "<p>one\ntwo <em>a</em> <b>b</b></p>"),
        ("<p>5\N{NO-BREAK SPACE}\N{NO-BREAK SPACE}s</p>",) * 2,
        ("<div>\n<pre>a\n\n  b </pre>\n</div>", "<div><pre>a\n\n  b </pre></div>"),
        ("<p>x</p>\n<script>\n  let a;\n</script>", "<p>x</p><script>\n  let a;\n</script>"),
        ("<span>a</span>\n<span>b</span>",) * 2,
        ('<link href="a">\n<label>\n  b</label>', '<link href="a"><label>\nb</label>'),
    ],
)
def test_white_space_goes_only_where_nobody_sees_it(text, squeezed):
    assert lighter.squeezed(text) == squeezed
