"""The drawings are well-formed, named, inside their frame, in theme colours, and say what is true.

The collectives' pictures are compared with what four real ranks hold.
"""

import json
import re
from collections import defaultdict
from xml.etree import ElementTree

import pytest

from distlab import collectives, cost, plots, rendezvous, ring, spmd, svg, timeline
from distlab.plots import looks
from press.project import ROOT

SVG = "{http://www.w3.org/2000/svg}"
LAYERS = tuple(timeline.Layer(f"layer {n}", 2e-3, 2**20) for n in reversed(range(8)))
WAYS = timeline.variants(LAYERS, 2 * 2**20, timeline.Link(5e-4, 1e-3 / 2**20))
STYLE = (ROOT / "content/assets/site.css").read_text("utf-8")
MEMORY = cost.memory(cost.Case())


def all_reduce(world_size):
    sends = ring.schedule("all_reduce", world_size)
    start = ring.contributors("all_reduce", world_size)
    return ring.states(sends, start, ring.join), ring.steps(sends)


def ring_figure(world_size):
    return plots.ring(*all_reduce(world_size))


def ring_moment(world_size, moment):
    return plots.ring_moment(*all_reduce(world_size), moment)


FIGURES = {
    **{name: lambda tile=tile: plots.collective(tile) for name, tile in collectives.TILES.items()},
    **{f"ring {p}": lambda p=p: ring_figure(p) for p in (2, 3, 4, 8)},
    **{
        f"ring {p} after {n}": lambda p=p, n=n: ring_moment(p, n)
        for p, n in ((2, 0), (4, 2), (7, 5))
    },
    **{name: lambda n=name, s=spans: plots.timeline(n, s, 0.03) for name, spans in WAYS.items()},
    "world": lambda: plots.world([[0, 1, 2, 3], [4, 5, 6, 7]], [1, 5]),
    "rendezvous": lambda: plots.rendezvous(rendezvous.moments(4, 1)),
    "compared": lambda: plots.compared("ways", WAYS),
    "no spans": lambda: plots.timeline("empty", ()),
    "memory": lambda: plots.bars(
        "Memory", [("DDP", [(item.name, item.per_rank[0] / 1e9) for item in MEMORY])], "GB"
    ),
}
every_figure = pytest.mark.parametrize("draw", FIGURES.values(), ids=FIGURES)


def parse(figure):
    return ElementTree.fromstring(figure.replace("<svg ", f'<svg xmlns="{SVG[1:-1]}" ', 1))  # noqa: S314


@every_figure
def test_a_figure_is_an_image_with_a_name_and_a_description(draw):
    root = parse(draw())

    ids = {element.get("id"): element for element in root.iter() if element.get("id")}
    named = [ids[name] for name in root.get("aria-labelledby").split()]
    assert root.get("role") == "img"
    assert [element.tag for element in named] == [f"{SVG}title", f"{SVG}desc"]
    assert all(element.text.strip() for element in named)


@every_figure
def test_colours_are_the_themes(draw):
    without_fallbacks = re.sub(r"var\(--fig-(ink|paper|[1-8]), [^)]*\)", "THEME", draw())

    painted = re.findall(r'(?:fill|stroke)="([^"]*)"', without_fallbacks)
    assert set(painted) <= {"THEME", "none"}
    assert "#" not in without_fallbacks


def luminance(colour):
    channels = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    return sum(share * c for share, c in zip((0.2126, 0.7152, 0.0722), channels, strict=True))


def token(name, scheme):
    """Return a colour of the site's style as red, green and blue between 0 and 1."""
    both = re.search(rf"--{name}: light-dark\((#\w+), (#\w+)\)", STYLE)
    return [int(both[scheme + 1][at : at + 2], 16) / 255 for at in (1, 3, 5)]


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("colour", range(1, 9))
def test_words_on_a_tint_are_read_easily(colour, scheme):
    over = zip(token(f"fig-{colour}", scheme), token("paper", scheme), strict=True)
    tint = luminance([svg.TINT * c + (1 - svg.TINT) * paper for c, paper in over])
    ink = luminance(token("ink", scheme))

    assert (max(ink, tint) + 0.05) / (min(ink, tint) + 0.05) >= 4.5


@every_figure
def test_words_stay_inside_the_frame_and_are_large_enough_for_a_phone(draw):
    root = parse(draw())
    _, _, width, height = map(float, root.get("viewBox").split())

    assert width <= plots.WIDTH
    for group in root.iterfind(f".//{SVG}g[@font-size]"):
        assert float(group.get("font-size")) >= 10
        for words in group:
            room = 5.5 * len(words.text)  # a narrow estimate of what the words need
            shift = {"start": 0, "middle": room / 2, "end": room}[group.get("text-anchor")]
            left = float(words.get("x")) - shift
            assert left >= -1
            assert left + room <= width + 1
            assert 8 <= float(words.get("y")) <= height


@every_figure
def test_shapes_stay_inside_the_frame(draw):
    root = parse(draw())
    _, _, width, height = map(float, root.get("viewBox").split())

    for path in root.iter(f"{SVG}path"):
        for x, y, wide, high in re.findall(
            r"M([\d.-]+) ([\d.-]+)h([\d.-]+)v([\d.-]+)", path.get("d")
        ):
            assert float(x) >= 0
            assert float(y) >= 0
            assert float(x) + float(wide) <= width + 0.1
            assert float(y) + float(high) <= height + 0.1


def test_the_same_data_gives_the_same_text_and_no_two_figures_share_an_id():
    first, again = ([draw() for draw in FIGURES.values()] for _ in range(2))
    ids = re.findall(r' id="([^"]+)"', "".join(first))

    assert first == again
    assert len(ids) == len(set(ids)) == 2 * len(FIGURES)


def test_a_figure_is_a_few_kilobytes():
    assert all(len(plots.collective(tile)) < 4096 for tile in collectives.TILES.values())
    assert len(ring_figure(4)) < 16384


def filled(figure, colour):
    """Return the heights of what is filled with a colour, in the order drawn."""
    paths = [
        path.get("d")
        for path in parse(figure).iter(f"{SVG}path")
        if path.get("fill", "").startswith(f"var(--fig-{colour},")
        and path.get("fill-opacity") == f"{looks.SOLID}"
    ]
    return [float(height) for height in re.findall(r"v([\d.]+)", "".join(paths))]


def test_the_ring_picture_fills_a_cell_as_ranks_are_summed_in_it():
    """World size 2: both own half of each sum; then each owns one sum; after the copy, both."""
    half, whole = 8, 16  # a token on its way is lower
    figure = ring_figure(2)

    rows = [[h for h in filled(figure, colour) if h in {half, whole}] for colour in (1, 2)]
    assert rows[0] == [half, half, whole, half, whole, whole]
    assert rows[1] == [half, half, half, whole, whole, whole]


def test_the_ring_picture_has_one_chunk_on_its_way_for_each_send():
    """World size 3: in each of four steps every rank sends; at the end the ring is at rest."""
    figure = ring_figure(3)
    heads = [
        p for p in parse(figure).iter(f"{SVG}path") if not p.get("stroke") and not p.get("fill")
    ]
    names = [e.text for e in parse(figure).iter(f"{SVG}text") if re.fullmatch(r"c\d", e.text)]

    assert [path.get("d").count("M") for path in heads] == [4 * 3]
    assert names == [f"c{send.chunk}" for send in ring.schedule("all_reduce", 3)]


def test_the_ring_picture_frames_what_arrived():
    """World size 3: four steps, in each of which every rank gets one chunk."""
    thick = [
        path
        for path in parse(ring_figure(3)).iter(f"{SVG}path")
        if path.get("stroke-width") == "2.5"
    ]

    assert [path.get("d").count("M") for path in thick] == [4 * 3]


def test_a_timeline_has_a_lane_for_computing_and_one_for_the_network():
    """Eight layers: the colour of each stands once in the upper lane and once in the lower."""
    lanes = defaultdict(set)
    for path in parse(plots.timeline("overlapped", WAYS["overlapped"])).iter(f"{SVG}path"):
        if path.get("fill-opacity"):
            lanes[path.get("fill")] |= set(re.findall(r"M[\d.]+ ([\d.]+)h", path.get("d")))

    assert list(lanes.values()) == [{"6", "26"}] * len(LAYERS)


def test_a_bucket_has_the_colours_of_its_layers_in_one_frame():
    """Pairs of layers: four frames around two colours each, and eight around one."""
    root = parse(plots.timeline("overlapped", WAYS["overlapped"]))
    frames = [
        path.get("d").count("M")
        for path in root.iterfind(f"./{SVG}path[@stroke]")
        if path.get("fill") == "none" and not path.get("stroke-dasharray")
    ]
    framed = root.iterfind(f"./{SVG}g[@stroke]/{SVG}path")

    assert frames == [4]
    assert [path.get("d").count("M") for path in framed] == [1] * len(LAYERS)


def test_a_chunk_keeps_its_colour_wherever_it_goes():
    """all_to_all transposes: chunk j stands in one column before, in row j afterwards."""
    root = parse(plots.collective(collectives.TILES["all_to_all"]))
    for path in (path for path in root.iter(f"{SVG}path") if path.get("fill-opacity")):
        cells = re.findall(r"M([\d.]+) ([\d.]+)h", path.get("d"))
        before, after = cells[:4], cells[4:]

        assert len({x for x, _ in before}) == len({y for _, y in after}) == 1
        assert len({y for _, y in before}) == len({x for x, _ in after}) == 4


@pytest.mark.parametrize("name", collectives.TILES)
def test_no_word_stands_on_a_strong_tint(name):
    strengths = re.findall(r'fill-opacity="([\d.]+)"', plots.collective(collectives.TILES[name]))

    assert {float(strength) for strength in strengths} <= {svg.TINT, looks.PALE}


def backward(seconds):
    return timeline.Span(0, "backward", "layer 1", 0, seconds, ("layer 1",))


def test_steps_are_compared_on_one_axis():
    """A step that takes half the time is half as long, and both say when they end."""
    root = parse(plots.compared("two", {"long": [backward(0.1)], "short": [backward(0.05)]}))
    (bars,) = (path.get("d") for path in root.iter(f"{SVG}path") if path.get("fill-opacity"))
    long, short = map(float, re.findall(r"h([\d.]+)v", bars))

    assert long == pytest.approx(2 * short, abs=0.2)
    assert long > 0.8 * plots.WIDTH
    assert {"100 ms", "50 ms"} <= {element.text for element in root.iter(f"{SVG}text")}


def test_a_compared_step_says_that_it_waits_only_where_it_does():
    for start, waits in ((0.1, False), (0.5, True)):
        spans = [backward(0.1), timeline.Span(0, "step", "step", start, start + 0.1)]

        assert ("waits" in plots.compared("one", {"way": spans})) == waits


def coloured(figure):
    """Return how many cells have each colour."""
    tints = [path for path in parse(figure).iter(f"{SVG}path") if path.get("fill-opacity")]
    return {path.get("fill")[10]: path.get("d").count("M") for path in tints}


def test_a_node_is_a_frame_and_a_group_an_outline_around_its_ranks():
    root = parse(plots.world([[0, 1, 2], [3, 4, 5]], [2, 5]))
    thick, (solid, dashed) = [], ([], [])
    for path in root.iterfind(f"./{SVG}path[@stroke]"):
        if path.get("stroke-width") == "2":
            thick += re.findall(r"M", path.get("d"))
        elif path.get("stroke-width") == "1.4":
            (dashed if path.get("stroke-dasharray") else solid).append(path.get("d"))
    rows = {e.text: float(e.get("y")) for e in root.iter(f"{SVG}text")}
    _, top = map(float, re.match(r"M([\d.]+) ([\d.]+)", dashed[0]).groups())

    assert (len(thick), len(solid), len(dashed)) == (2, 1, 1)
    assert top < rows["rank 2"] == rows["rank 5"] < top + 26
    assert rows["rank 1"] < top
    assert rows["rank 3"] == rows["rank 0"]
    assert rows["local rank 2"] == rows["rank 5"]


@pytest.mark.parametrize("group", [[0, 5], [0], [9, 10]])
def test_a_group_that_no_outline_can_hold_is_refused(group):
    with pytest.raises(ValueError, match="name one local rank of one or two nodes"):
        plots.world([[0, 1, 2], [3, 4, 5]], group)


def test_a_rendezvous_shows_who_knows_which_address():
    moments = rendezvous.moments(4, late=1)
    known = {
        str(rank + 1): sum(
            (rank in moment.store) + sum(rank in addresses for addresses in moment.known)
            for moment in moments
        )
        for rank in range(4)
    }

    assert coloured(plots.rendezvous(moments)) == known == {"1": 8, "2": 5, "3": 8, "4": 8}
    assert plots.rendezvous(moments).count(">late<") == 2


def test_ranks_are_connected_only_when_all_have_read_all_addresses():
    moments = rendezvous.moments(4, late=1)

    assert [moment.connected for moment in moments] == [False, False, True]
    bows = [len(re.findall(r"q-[\d.]+ ", plots.rendezvous([moment]))) for moment in moments]
    assert bows == [0, 0, 6]


def test_names_are_escaped():
    figure = plots.timeline('<b> & "quotes"', ())

    assert "<b>" not in figure
    assert parse(figure).find(f"{SVG}title").text == '<b> & "quotes"'


# Every input is its own bit, so a sum tells which ranks and chunks are in it.
ON_FOUR_RANKS = """
import json
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
bit = lambda r, c: torch.tensor([1 << (4 * r + c)])
whole = lambda: bit(rank, 0)  # a tensor that is not cut: chunk 0's bit
chunks = lambda: torch.cat([bit(rank, c) for c in range(world)])
after = {}
x = whole(); dist.broadcast(x, src=0); after["broadcast"] = x
x = whole(); dist.reduce(x, dst=0); after["reduce"] = x
x = whole(); dist.all_reduce(x); after["all_reduce"] = x
out = [torch.zeros(1, dtype=torch.int64) for _ in range(world)] if rank == 0 else None
dist.gather(whole(), out, dst=0); after["gather"] = torch.cat(out) if out else torch.tensor([])
x = torch.zeros(1, dtype=torch.int64)
dist.scatter(x, list(chunks().split(1)) if rank == 0 else None, src=0); after["scatter"] = x
x = torch.zeros(world, dtype=torch.int64)
dist.all_gather_into_tensor(x, whole()); after["all_gather"] = x
x = torch.zeros(1, dtype=torch.int64)
dist.reduce_scatter_tensor(x, chunks()); after["reduce_scatter"] = x
x = torch.zeros(world, dtype=torch.int64)
dist.all_to_all_single(x, chunks()); after["all_to_all"] = x
x = whole() if rank == 0 else torch.zeros(1, dtype=torch.int64)
if rank == 0: dist.send(x, dst=1)
if rank == 1: dist.recv(x, src=0)
after["send/recv"] = x if rank < 2 else torch.tensor([])
dist.barrier()
print(json.dumps({name: tensor.tolist() for name, tensor in after.items()}), flush=True)
dist.destroy_process_group()
"""


# Rank 1 comes last: it waits until rank 0 has seen the others' addresses, and none of its own.
MEETING = """
import json, os
import torch.distributed as dist

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
store = dist.FileStore("meeting", world)
there = lambda ranks: [r for r in ranks if store.check([f"address/{r}"])]
if rank == 1:
    store.get("seen")
store.set(f"address/{rank}", str(rank))
if rank == 0:
    store.wait(["address/2", "address/3"])
    before = there(range(world))
    store.set("seen", "")
known = [int(store.get(f"address/{r}")) for r in range(world)]
print(json.dumps([before if rank == 0 else None, known]), flush=True)
"""


def test_real_ranks_meet_as_the_picture_of_the_rendezvous_shows(launcher):
    outcome = launcher.run(spmd.Program(MEETING, ranks=4, timeout=60))
    assert outcome.cause == "finished", outcome
    held = [json.loads(rank.stdout) for rank in outcome.ranks]
    _, published, read = rendezvous.moments(4, late=1)

    assert set(held[0][0]) == published.store
    assert [frozenset(known) for _, known in held] == list(read.known)


def as_bits(buffer):
    return [sum(1 << (4 * rank + (piece.chunk or 0)) for rank in piece.ranks) for piece in buffer]


@pytest.fixture(scope="module")
def on_four_ranks(launcher):
    outcome = launcher.run(spmd.Program(ON_FOUR_RANKS, ranks=4, timeout=60))
    assert outcome.cause == "finished", outcome
    return [json.loads(rank.stdout.splitlines()[-1]) for rank in outcome.ranks]


@pytest.mark.parametrize("name", [name for name in collectives.TILES if name != "barrier"])
def test_four_real_ranks_hold_what_the_picture_of_the_collective_shows(name, on_four_ranks):
    tile = collectives.TILES[name]
    for shown, held in zip(tile.after, on_four_ranks, strict=True):
        if any(piece.ranks for piece in shown) or not shown:  # "?" promises nothing
            assert as_bits(shown) == held[name]
