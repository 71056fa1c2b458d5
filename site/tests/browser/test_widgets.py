"""The interactive figures in Debian's Chromium, in a page of their own with the site's style.

They must be complete without scripts, usable by keyboard, and show what Python computed.
Without a browser or playwright the tests are skipped, saying so; with BROWSER_REQUIRED=1 they fail.
"""

import re
import shutil
from itertools import product
from urllib.parse import parse_qs, urlsplit

import pytest

from browser import visits
from browser.visits import Setting, faults, reader, visit
from distlab import cost, figures, ring, sampling, timeline
from distlab.figures import markup, samplers
from distlab.plots import looks, rings
from press import lighter
from press.project import ROOT

WIDGETS = ROOT / "content/assets/widgets"
MIB = 2**20
LAYERS = tuple(timeline.Layer(f"layer {n}", 4e-3, MIB) for n in reversed(range(8)))
CASES = figures.model_cases(
    LAYERS,
    {"1 MiB": MIB, "2 MiB": 2 * MIB, "8 MiB": 8 * MIB},
    {"slow": timeline.Link(2e-3, 4e-3 / MIB), "fast": timeline.Link(5e-4, 1e-3 / MIB)},
)
DRAWN = {
    "ring-all-reduce": figures.ring_all_reduce,
    "ddp-timeline": lambda: figures.ddp_timeline(CASES),
    "scaling-calculator": figures.scaling_calculator,
    "distributed-sampler": figures.distributed_sampler,
}
PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Figures</title>
<meta name="viewport" content="width=device-width,initial-scale=1"><link rel="icon" href="data:,">
<link rel="stylesheet" href="assets/site.css"></head>
<body data-md-color-scheme="{scheme}" style="background:var(--paper);color:var(--ink);margin:1rem">
<main><article class="md-typeset"><h1>Figures</h1>{figures}</article></main>
<script src="assets/page.js"></script></body></html>"""


LACKING = visits.missing()
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(visits.skip(LACKING), reason=LACKING),
]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures")
    shutil.copytree(ROOT / "content/assets", folder / "assets")
    together = "".join(draw() for draw in DRAWN.values())
    for scheme, name in (("default", "light"), ("slate", "dark")):
        text = PAGE.format(scheme=scheme, figures=together)
        page = folder / f"{name}.html"
        page.write_text(lighter.write(text, page), encoding="utf-8")
    with visits.serve(folder) as address:
        yield address


def scrolled(context, home, path="light.html"):
    """Visit the page and go through it, so that its figures live."""
    seen = visit(context, home, path)
    visits.enliven(seen.page)
    return seen


@pytest.fixture(scope="module")
def shared(chromium, home):
    """One open page for the tests that set every control they depend on."""
    with reader(chromium, Setting(1440)) as context:
        seen = scrolled(context, home)
        yield seen.page
        assert seen.errors == []


@pytest.fixture
def fresh(chromium, home):
    with reader(chromium, Setting(1440)) as context:
        yield scrolled(context, home).page


def rows(table):
    """Return a table's body as lists of texts."""
    return table.evaluate(
        "t => [...t.tBodies[0].rows].map(r => [...r.cells].map(c => c.textContent))"
    )


# ------------------------------------------------------------------------------ all four figures


@pytest.mark.parametrize("name", DRAWN)
def test_without_javascript_a_figure_is_complete_and_shows_no_dead_control(chromium, home, name):
    with reader(chromium, Setting(390), java_script_enabled=False) as context:
        figure = visit(context, home, "light.html").page.locator(name)

        assert figure.locator("svg:not([data-live] *), table.data:has(tbody)").first.is_visible()
        assert not figure.locator("fieldset").is_visible()


def test_a_figure_comes_to_life_when_a_reader_comes_near_it(chromium, home):
    """Until then it is what it is without scripts, and what it needs has not been asked for."""
    with reader(chromium, Setting(1440)) as context:
        context.add_init_script(
            """new MutationObserver((_, parsing) => {  // before anything is laid out
              const title = document.querySelector("h1");
              if (!title) return;
              title.style.marginBottom = "9000px";
              parsing.disconnect();
            }).observe(document, { childList: true, subtree: true });"""
        )
        seen = visit(context, home, "light.html")
        asked = [urlsplit(request.url).path for request in seen.requests]
        figure = seen.page.locator("ring-all-reduce")
        assert figure.locator("details svg").is_visible()
        assert not figure.locator("fieldset").is_visible()

        figure.scroll_into_view_if_needed()
        figure.locator("fieldset").wait_for()
        later = [urlsplit(request.url).path for request in seen.requests[len(asked) :]]
        assert [path for path in asked if path.startswith(("/assets/widgets", "/light/"))] == []
        assert {"/light/ring-all-reduce.json", "/assets/widgets/ring-all-reduce.js"} <= {*later}
        assert seen.errors == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_figures_fit_and_are_accessible(chromium, home, width, scheme):
    with reader(chromium, Setting(width, scheme)) as context:
        seen = scrolled(context, home, f"{scheme}.html")
        folder = ROOT / ".cache" / "screenshots"
        folder.mkdir(parents=True, exist_ok=True)
        seen.page.screenshot(path=folder / f"figures-{width}-{scheme}.png", full_page=True)

        assert seen.page.locator("fieldset:visible").count() == len(DRAWN)
        seen.page.locator("ring-all-reduce").get_by_role("combobox", name="Ranks").select_option(
            "8"
        )
        seen.page.locator("ring-all-reduce").get_by_role("button", name="Next").click()
        assert faults(seen) == []
        for folded in seen.page.locator("details").all():
            folded.evaluate("details => { details.open = true; }")
        assert faults(seen) == []


def test_every_control_has_a_label_and_is_reached_by_the_tab_key(fresh):
    controls = "fieldset :is(input, select, button)"
    reached = set()
    for _ in range(80):
        fresh.keyboard.press("Tab")
        reached.add(
            fresh.evaluate(
                f"[...document.querySelectorAll('{controls}')].indexOf(document.activeElement)"
            )
        )

    unnamed = fresh.locator(controls).evaluate_all(
        "all => all.filter(c => !(c.labels?.length || c.textContent.trim())).map(c => c.outerHTML)"
    )
    assert unnamed == []
    assert reached - {-1} == set(range(fresh.locator(controls).count()))


def test_printing_opens_the_folded_figures_and_leaves_out_the_controls(fresh):
    figure = fresh.locator("ring-all-reduce details svg")
    assert not figure.is_visible()
    fresh.emulate_media(media="print")

    assert figure.is_visible()
    assert fresh.locator("fieldset:visible").count() == 0


def test_modules_are_small_and_bring_nothing_of_others():
    modules = [*WIDGETS.glob("*.js"), *WIDGETS.glob("*.mjs")]

    assert {path.stem for path in WIDGETS.glob("*.js")} == set(DRAWN)
    assert all(len(path.read_text("utf-8").splitlines()) < 150 for path in modules)
    assert sum(path.stat().st_size for path in modules) < 60_000
    imported = {
        name for path in modules for name in re.findall(r'from "([^"]+)"', path.read_text())
    }
    assert imported == {"./scaling.mjs"}


# --------------------------------------------------------------------------------- ring all-reduce


def expected_ring(world_size):
    sends = ring.schedule("all_reduce", world_size)
    start = ring.contributors("all_reduce", world_size)
    return sends, ring.states(sends, start, ring.join)


# What a reader sees of the drawn ring: each filled part (colour, place, height) and each word.
IN_THE_RING = """(svg, solid) => {
  const all = (what, read) => [...svg.querySelectorAll(what)].map(read);
  const sides = (r) => ["x", "y", "width", "height"].map((side) => Number(r.getAttribute(side)));
  return {
    filled: all(`rect[fill-opacity="${solid}"]`, (r) => [r.getAttribute("fill"), ...sides(r)]),
    frames: all("rect.frame", (r) => r.getAttribute("stroke-width")),
    words: all("text", (text) => text.textContent),
    paths: all("path", (path) => path.getAttribute("d")),
  };
}"""


def drawn_ring(parts, state, leaving):
    """Return the filled parts that the ring must show: all chunks, then those on their way."""
    world_size = len(state)
    cells = [
        (parts.cell(rank, chunk), chunk, len(ranks))
        for rank, chunks in enumerate(state)
        for chunk, ranks in enumerate(chunks)
    ]
    cells += [(parts.tokens[s.src], s.chunk, len(state[s.src][s.chunk])) for s in leaving]
    return [
        (
            f"var(--fig-{chunk + 1})",
            rect.x,
            rect.y + rect.height * (1 - count / world_size),
            rect.width,
            rect.height * count / world_size,
        )
        for rect, chunk, count in cells
    ]


@pytest.mark.parametrize("world_size", range(2, 9))
def test_every_step_of_the_drawn_ring_is_pythons(shared, world_size):
    figure = shared.locator("ring-all-reduce")
    sends, states = expected_ring(world_size)
    parts = rings.layout(world_size, rings.large(world_size))
    figure.get_by_role("combobox", name="Ranks").select_option(str(world_size))
    for step, state in enumerate(states):
        leaving = [s for s in sends if s.step == step]
        svg = figure.locator("[data-live] svg")
        drawn = svg.evaluate(IN_THE_RING, looks.SOLID)

        for shown, expected in zip(drawn["filled"], drawn_ring(parts, state, leaving), strict=True):
            assert shown[0] == expected[0]
            assert shown[1:] == pytest.approx(expected[1:], abs=0.1)
        names = [word for word in drawn["words"] if re.fullmatch(r"c\d", word)]
        assert names == [f"c{send.chunk}" for send in leaving]
        thick = [frame for frame in drawn["frames"] if frame != "0.8"]
        assert len(thick) == (world_size if step else 0)
        lines = (parts.shafts, parts.heads) if leaving else (parts.links,)
        assert drawn["paths"] == ["".join(pieces) for pieces in lines]
        said = svg.get_attribute("aria-label")
        moves = [f"c{s.chunk} from rank {s.src} to {s.dst}" for s in leaving]
        assert said == (
            f"The ring. On the way: {', '.join(moves)}."
            if moves
            else "The ring at rest: every rank has every sum."
        )
        if leaving:
            figure.get_by_role("button", name="Next").click()


@pytest.mark.parametrize("world_size", range(2, 9))
def test_every_step_of_the_ring_is_pythons(shared, world_size):
    figure = shared.locator("ring-all-reduce")
    sends, states = expected_ring(world_size)
    figure.get_by_role("combobox", name="Ranks").select_option(str(world_size))
    for step, state in enumerate(states):
        arrived = {(s.dst, s.chunk) for s in sends if s.step == step - 1}
        leaving = {(s.src, s.chunk) for s in sends if s.step == step}
        table = figure.locator("[data-live] table")

        assert rows(table) == [
            [f"r{rank}"]
            + [f"{len(c)}{'↓' if (rank, n) in leaving else ''}" for n, c in enumerate(chunks)]
            for rank, chunks in enumerate(state)
        ]
        marked = table.evaluate(
            "t => [...t.querySelectorAll('[data-arrived]')]"
            ".map(c => [c.parentNode.rowIndex - 1, c.cellIndex - 1])"
        )
        assert {tuple(place) for place in marked} == arrived
        names = table.locator("td").evaluate_all("all => all.map(c => c.title.split(';')[0])")
        assert names == [
            f"sum of rank {', '.join(map(str, sorted(c)))}" for chunks in state for c in chunks
        ]
        sent = ring.bytes_sent(sends[: step * world_size], [1] * world_size)[0]
        assert figure.locator("progress").evaluate("p => p.value") == sent / world_size
        assert f"{sent}/{world_size} S of" in figure.locator("[data-sent]").inner_text()
        if step + 1 < len(states):
            figure.get_by_role("button", name="Next").click()


def test_the_ring_is_stepped_by_keyboard_and_stops_at_both_ends(fresh):
    figure = fresh.locator("ring-all-reduce")
    status, slider = figure.get_by_role("status"), figure.get_by_role("slider", name="Step")
    slider.focus()
    fresh.keyboard.press("ArrowRight")
    assert status.inner_text().startswith("Step 1 of 6, reduce-scatter: rank 1 adds c3 from 0")
    fresh.keyboard.press("End")
    assert status.inner_text().startswith("Step 6 of 6, all-gather")
    figure.get_by_role("button", name="Next").focus()
    fresh.keyboard.press("Enter")
    assert status.inner_text().startswith("Step 6 of 6, all-gather")
    figure.get_by_role("button", name="Back").focus()
    fresh.keyboard.press("Enter")
    assert status.inner_text().startswith("Step 5 of 6, all-gather")
    for _ in range(9):
        fresh.keyboard.press("Enter")
    assert status.inner_text().startswith("Start")
    fresh.keyboard.press("ArrowRight")  # on a button, too
    fresh.keyboard.press("ArrowRight")
    fresh.keyboard.press("ArrowLeft")
    assert status.inner_text().startswith("Step 1 of 6")


def test_a_chunk_leaves_its_rank_only_for_readers_who_allow_motion(chromium, home):
    moving = "getComputedStyle(document.querySelector('ring-all-reduce svg g')).animationName"
    for motion, name in (("no-preference", "leave"), ("reduce", "none")):
        with reader(chromium, Setting(1440)) as context:
            page = scrolled(context, home).page
            page.emulate_media(reduced_motion=motion)
            assert page.evaluate(moving) == name


@pytest.mark.parametrize(("width", "beside"), [(1440, True), (390, False)])
def test_the_rings_table_stands_beside_it_or_below_it(chromium, home, width, beside):
    with reader(chromium, Setting(width)) as context:
        live = scrolled(context, home).page.locator("ring-all-reduce [data-live]")
        ring_box, table = (live.locator(part).bounding_box() for part in ("svg", "table"))

        assert (table["x"] >= ring_box["x"] + ring_box["width"]) == beside
        assert (table["y"] >= ring_box["y"] + ring_box["height"]) == (not beside)
        assert ring_box["width"] > 300


# ----------------------------------------------------------------------------------- DDP's timeline


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.bucket}-{case.link}")
def test_the_chosen_timeline_is_drawn_and_put_into_words(shared, case):
    figure = shared.locator("ddp-timeline")
    figure.get_by_label("Bucket cap").select_option(case.bucket)
    figure.get_by_label("Network").select_option(case.link)

    titles = figure.locator("[data-drawing] svg > title").all_text_contents()
    assert titles == [
        f"naive, model, {case.link}",
        f"overlapped, model, {case.link}, buckets of {case.bucket}",
    ]
    naive, overlapped = (timeline.length(case.ways[way]) * 1e3 for way in ("naive", "overlapped"))
    said = figure.get_by_role("status").inner_text()
    assert said.startswith(f"A step takes {naive:.3g} ms naive and {overlapped:.3g} ms overlapped,")
    ends = figure.locator("[data-drawing] text").get_by_text("ends at").all_text_contents()
    assert ends == [f"ends at {naive:.3g} ms", f"ends at {overlapped:.3g} ms"]


def test_where_no_case_has_all_choices_the_last_choice_holds(chromium, tmp_path):
    """Measured and modelled cases need not have the same networks."""
    measured = figures.TimelineCase("measured", "1 MiB", "loopback", CASES[0].ways)
    shutil.copytree(ROOT / "content/assets", tmp_path / "assets")
    drawn = figures.ddp_timeline([*CASES, measured])
    text = PAGE.format(scheme="default", figures=drawn)
    (tmp_path / "one.html").write_text(text, encoding="utf-8")
    with visits.serve(tmp_path) as address, reader(chromium, Setting(1440)) as context:
        page = scrolled(context, address, "one.html").page
        page.get_by_label("Bucket cap").select_option("8 MiB")
        page.get_by_label("Times").select_option("measured")

        shown = page.locator("select").evaluate_all(
            "all => all.map(s => s.selectedOptions[0].text)"
        )
        assert shown == ["measured", "1 MiB", "loopback"]


# ------------------------------------------------------------------------------- scaling calculator

GRID = [
    cost.Case(*values)
    for values in product(
        (1e6, 1.3e9, 7e10),
        cost.PRECISIONS,
        cost.OPTIMIZER_STATES,
        (1, 2, 7, 1024),
        (1e9, 2.5e10, 4.5e11),
        (3e11, 4e14, 9.9e14),
        (1, 512, 16384, 1e6),
    )
]
ON_GRID = """async ([fields, points, tables]) => {
  const module = new URL("assets/widgets/scaling.mjs", location);
  const { times, breakEvenTokens, memory } = await import(module);
  return points.map((point) => {
    const setup = Object.fromEntries(fields.map((field, place) => [field, point[place]]));
    const step = times(setup, tables);
    const items = memory(setup, tables, true);
    return [
      [step.communication, step.forward, step.backward, step.compute, step.hidden, step.exposed,
       step.hidden_fraction, step.overlapped_step, step.naive_step, breakEvenTokens(setup, tables),
       ...items.flatMap((item) => [item.bytes_per_parameter, ...item.per_rank])],
      items.map((item) => item.name),
    ];
  });
}"""


def by_python(case):
    step, items = cost.times(case), cost.memory(case, bucket_copy=True)
    numbers = [step.communication, step.forward, step.backward, step.compute, step.hidden]
    numbers += [step.exposed, step.hidden_fraction, step.overlapped_step, step.naive_step]
    numbers.append(cost.break_even_tokens(case))
    for item in items:
        numbers += [item.bytes_per_parameter, *item.per_rank]
    return numbers, [item.name for item in items]


def test_the_calculators_arithmetic_is_pythons_over_a_grid(shared):
    tables = shared.locator("scaling-calculator script").evaluate("s => JSON.parse(s.textContent)")
    fields = list(cost.Case.__dataclass_fields__)
    points = [[getattr(case, field) for field in fields] for case in GRID]

    answers = shared.evaluate(ON_GRID, [fields, points, tables])

    assert len(answers) == len(GRID) > 3000
    for case, (numbers, names) in zip(GRID, answers, strict=True):
        expected_numbers, expected_names = by_python(case)
        assert names == expected_names
        # A difference of nearly equal times keeps few digits: allow for the larger one's.
        slack = 1e-12 * cost.times(case).communication
        assert numbers == pytest.approx(expected_numbers, rel=1e-12, abs=slack)


def test_numbers_are_written_as_python_writes_them(shared):
    values = [
        0,
        1,
        17.5,
        999.5,
        1.125,
        0.125,
        2.675,
        1234567,
        1e-7,
        0.00012345,
        16384,
        0.1,
        1e12 / 3,
    ]

    written = shared.evaluate(
        """async (values) => {
          const { plain, three } = await import(new URL("assets/widgets/scaling.mjs", location));
          return values.map((value) => [three(value), plain(value)]);
        }""",
        values,
    )

    assert written == [[markup.three(value), markup.plain(value)] for value in values]


def shown_by(figure):
    tables = [rows(table) for table in figure.locator("table").all()]
    return tables, figure.get_by_role("status").text_content()


@pytest.mark.parametrize(
    "case",
    [
        cost.Case(),
        cost.Case(tokens=1024, world_size=1024),
        cost.Case(parameters=7e9, precision="float32", optimizer="sgd"),
        cost.Case(precision="bfloat16", optimizer="sgd with momentum", bus_bandwidth=1.25e10),
    ],
    ids=str,
)
def test_a_filled_in_calculator_reads_as_the_one_that_python_writes(chromium, home, case):
    filled = [
        ("Parameters", case.parameters / 1e9),
        ("Ranks", case.world_size),
        ("Bus bandwidth", case.bus_bandwidth / 1e9),
        ("Achieved", case.flops / 1e12),
        ("Tokens", case.tokens),
    ]
    with reader(chromium, Setting(1440)) as context:
        page = scrolled(context, home).page
        figure = page.locator("scaling-calculator")
        for label, value in filled:
            figure.get_by_label(label).fill(f"{value:g}")
        figure.get_by_label("Weights and gradients").select_option(case.precision)
        figure.get_by_label("Optimizer").select_option(case.optimizer)
        by_javascript = shown_by(figure)
        page.set_content(figures.scaling_calculator(case))

        assert by_javascript == shown_by(page.locator("scaling-calculator"))


def test_the_address_carries_the_case_to_another_reader(chromium, fresh):
    figure = fresh.locator("scaling-calculator")
    figure.get_by_label("Parameters").fill("70")
    figure.get_by_label("Optimizer").select_option("sgd")
    figure.get_by_label("Count DDP's buckets").check()
    with reader(chromium, Setting(1440)) as context:
        page = context.new_page()
        page.goto(fresh.url, wait_until="networkidle")
        visits.enliven(page)
        other = page.locator("scaling-calculator")

        assert parse_qs(urlsplit(fresh.url).query) == {
            "parameters": ["70"],
            "optimizer": ["sgd"],
            "bucket_copy": ["yes"],
        }
        assert shown_by(other) == shown_by(figure)
        assert rows(other.locator("table").last)[-1][:3] == [
            "total",
            "10",
            "700\N{NO-BREAK SPACE}GB",
        ]

    figure.get_by_label("Parameters").fill("1")
    figure.get_by_label("Optimizer").select_option("adam")
    figure.get_by_label("Count DDP's buckets").uncheck()
    assert urlsplit(fresh.url).query == ""


def test_a_broken_address_falls_back_to_the_example(chromium, home):
    with reader(chromium, Setting(1440)) as context:
        broken = "light.html?parameters=-3&optimizer=lion&world_size=2.5&tokens=many&bucket_copy=x"
        seen = scrolled(context, home, broken)
        times, _ = shown_by(seen.page.locator("scaling-calculator"))[0]

        assert times[1][1] == "17.5\N{NO-BREAK SPACE}ms"
        assert seen.page.get_by_role("alert").inner_text() == ""
        assert seen.errors == []


@pytest.mark.parametrize(("label", "value"), [("Ranks", "0"), ("Tokens", ""), ("Ranks", "2.5")])
def test_a_bad_value_is_named_and_the_tables_keep_the_last_case(fresh, label, value):
    figure = fresh.locator("scaling-calculator")
    before = shown_by(figure)
    figure.get_by_label(label).fill(value)

    said = figure.get_by_role("alert").inner_text()
    assert said.startswith(label)
    assert "The tables keep the last case." in said
    assert shown_by(figure) == before


# ------------------------------------------------------------------------------ DistributedSampler


def cells(epoch):
    return [
        [f"rank {rank}", *(f"{s.index} again" if s.repeat else str(s.index) for s in slots)]
        for rank, slots in enumerate(epoch.ranks)
    ]


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("world_size", samplers.WORLD_SIZES)
def test_every_case_of_the_sampler_is_torchs(shared, world_size, drop_last):
    figure = shared.locator("distributed-sampler")
    figure.get_by_label("drop_last").set_checked(drop_last)
    figure.get_by_role("combobox", name="Ranks").select_option(str(world_size))
    for length, called in product(samplers.LENGTHS, (True, False)):
        sharding = sampling.Sharding(length, world_size, drop_last=drop_last)
        figure.get_by_label("Examples").select_option(str(length))
        figure.get_by_label("set_epoch").set_checked(called)
        for epoch in sampling.epochs(sharding, samplers.EPOCHS, set_epoch=called):
            figure.get_by_role("slider", name="Epoch").fill(str(epoch.epoch))

            assert rows(figure.locator("[data-live] table")) == cells(epoch)
            said = figure.get_by_role("status").inner_text()
            assert said.startswith(f"Epoch {epoch.epoch}")
            dropped = ", ".join(map(str, epoch.dropped))
            assert (f"dropped: {dropped}." in said) == bool(epoch.dropped)


def test_forgetting_set_epoch_is_said_in_words(fresh):
    figure = fresh.locator("distributed-sampler")
    figure.get_by_role("slider", name="Epoch").focus()
    fresh.keyboard.press("ArrowRight")
    assert "replays" not in figure.get_by_role("status").inner_text()
    figure.get_by_label("set_epoch").focus()
    fresh.keyboard.press("Space")

    assert (
        "Epoch 1, which replays the order of epoch 0:" in figure.get_by_role("status").inner_text()
    )
