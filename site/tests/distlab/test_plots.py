"""The drawings are well-formed, named, inside their frame, in theme colours, and say what is true.

The collectives' pictures are compared with what four real ranks hold.
"""

import json
import re
from xml.etree import ElementTree

import pytest

from distlab import collectives, cost, plots, ring, spmd, timeline
from distlab.plots import looks

SVG = "{http://www.w3.org/2000/svg}"
LAYERS = tuple(timeline.Layer(f"layer {n}", 2e-3, 2**20) for n in reversed(range(8)))
WAYS = timeline.variants(LAYERS, 2 * 2**20, timeline.Link(5e-4, 1e-3 / 2**20))
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


@every_figure
def test_words_stay_inside_the_frame_and_are_large_enough_for_a_phone(draw):
    root = parse(draw())
    _, _, width, height = map(float, root.get("viewBox").split())

    assert width <= plots.WIDTH
    for group in root.iter(f"{SVG}g"):
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
    assert sorted(names) == sorted(f"c{send.chunk}" for send in ring.schedule("all_reduce", 3))


def test_the_ring_picture_frames_what_arrived():
    """World size 3: four steps, in each of which every rank gets one chunk."""
    thick = [
        path
        for path in parse(ring_figure(3)).iter(f"{SVG}path")
        if path.get("stroke-width") == "2.5"
    ]

    assert [path.get("d").count("M") for path in thick] == [4 * 3]


def test_a_timeline_has_a_lane_for_computing_and_one_for_the_network():
    overlapped = parse(plots.timeline("overlapped", WAYS["overlapped"]))
    tints = [path for path in overlapped.iter(f"{SVG}path") if path.get("fill-opacity")]

    rows = [set(re.findall(r"M[\d.]+ ([\d.]+)h", path.get("d"))) for path in tints]
    assert rows == [{"6"}, {"26"}]


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
