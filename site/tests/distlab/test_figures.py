"""The figures' HTML without a browser: well-formed, named controls, safe data, equal every time."""

import html
import json
import re
from html.parser import HTMLParser

import pytest

from distlab import figures, timeline
from distlab.figures import markup, steps

LAYERS = tuple(timeline.Layer(f"layer {n}", 1e-3, 2**20) for n in range(3))
CASES = figures.model_cases(LAYERS, {"1 MiB": 2**20}, {"</script>": timeline.Link(0, 1e-9)})
FIGURES = {
    "ring-all-reduce": figures.ring_all_reduce,
    "ddp-timeline": figures.ddp_timeline,
    "scaling-calculator": figures.scaling_calculator,
    "distributed-sampler": figures.distributed_sampler,
}
every_figure = pytest.mark.parametrize(("name", "draw"), FIGURES.items(), ids=FIGURES)
EMPTY = {"input"}


class Reader(HTMLParser):
    """Collects tags, checks that they close in order, keeps the text of scripts."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.scripts = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        """Note a tag, what it stands in, and that it is open."""
        self.tags.append((tag, dict(attrs), tuple(self.open)))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        """Note a tag that closes itself."""
        self.tags.append((tag, dict(attrs), tuple(self.open)))

    def handle_endtag(self, tag):
        """Check that the innermost open tag closes."""
        assert self.open.pop() == tag

    def handle_data(self, data):
        """Keep the text of scripts."""
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)


@every_figure
def test_a_figure_is_one_element_with_balanced_tags_and_one_json_child(name, draw):
    page = Reader(draw())

    assert page.open == []
    assert [tag for tag, *_ in page.tags][:2] == ["figure", name]
    assert len(page.scripts) == 1
    json.loads(page.scripts[0])


@every_figure
def test_every_control_stands_in_its_label_or_says_what_it_does(name, draw):
    controls = [tag for tag in Reader(draw()).tags if tag[0] in {"input", "select", "progress"}]

    assert controls
    assert [tag for tag, _, inside in controls if "label" not in inside] == []


@every_figure
def test_the_same_call_gives_the_same_text(name, draw):
    assert draw() == draw()


@every_figure
def test_a_figure_is_a_reasonable_part_of_a_page(name, draw):
    assert len(draw()) < 60_000


def test_the_home_pages_ring_is_a_picture_alone_that_says_what_every_rank_holds():
    """After two of three additions: rank r has summed three ranks in chunk r + 1, two in r + 2."""
    text = figures.home_ring()
    page = Reader(text)
    said = html.unescape(re.search(r"<desc [^>]*>(.*?)</desc>", text)[1])

    assert [tag for tag, *_ in page.tags][:2] == ["figure", "svg"]
    assert (page.open, page.scripts) == ([], [])
    assert len(text) < 5_000
    assert "rank 0 holds 1, 3, 2, 1; rank 1 holds 1, 1, 3, 2; rank 2 holds 2, 1, 1, 3;" in said
    assert "step 3, add: rank 0 sends chunk 1 to rank 1, rank 1 sends chunk 2 to rank 2" in said
    assert "step 3 of 6" in text.partition("<figcaption>")[2]


def test_data_cannot_end_the_script_it_stands_in():
    text = figures.ddp_timeline(CASES)

    assert text.count("</script>") == 1
    assert "&lt;/script&gt;" in json.loads(Reader(text).scripts[0])["drawings"][0]
    for nasty in ("</script>", "</SCRIPT >", "<!--<script>", "\\</script>"):
        assert json.loads(Reader(markup.figure(**bare(nasty))).scripts[0]) == nasty


def bare(data):
    empty = dict.fromkeys(("name", "legend", "controls", "live", "static", "caption"), "x")
    return {**empty, "data": data}


def test_a_timeline_without_a_case_and_a_sampler_outside_the_grid_are_refused():
    with pytest.raises(ValueError, match="no case to draw"):
        figures.ddp_timeline([])
    with pytest.raises(ValueError, match="length 1000 on 3 ranks is not in the figure's grid"):
        figures.distributed_sampler(1000)


def test_the_static_table_of_the_timeline_has_every_way_of_every_case():
    tags = [tag for tag, *_ in Reader(figures.ddp_timeline(CASES)).tags]

    assert tags.count("tr") == 1 + len(CASES)
    assert tags.count("th") + tags.count("td") == (1 + len(CASES)) * (3 + len(timeline.WAYS) + 1)


def test_the_kept_recording_and_the_model_stand_side_by_side():
    data = json.loads(Reader(figures.ddp_timeline()).scripts[0])
    kept = steps.load()

    assert len(data["cases"]) == 2 * len(kept.caps) * len(kept.links)
    assert {case["source"] for case in data["cases"]} == {0, 1}
    assert kept.recorded in figures.ddp_timeline()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (17.5, "17.5"),
        (1.125, "1.13"),
        (999.5, "1,000"),
        (12345, "12,300"),
        (2e-7, "0.0000002"),
    ],
)
def test_numbers_have_three_digits_and_no_exponent(value, text):
    assert markup.three(value) == text
