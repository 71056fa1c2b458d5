"""The ring moves what it should: against closed forms, for every world size up to 9."""

from fractions import Fraction

import pytest

from distlab import ring

WORLD_SIZES = range(1, 10)


@pytest.mark.parametrize("world_size", WORLD_SIZES)
def test_all_reduce_leaves_the_sum_of_all_inputs_on_every_rank(world_size):
    inputs = [[10**rank * (chunk + 1) for chunk in range(world_size)] for rank in range(world_size)]

    *_, end = ring.states(ring.schedule("all_reduce", world_size), inputs, int.__add__)

    closed_form = tuple(sum(column) for column in zip(*inputs, strict=True))
    assert end == (closed_form,) * world_size


@pytest.mark.parametrize("world_size", WORLD_SIZES)
def test_reduce_scatter_leaves_the_full_sum_of_chunk_j_on_rank_j_and_nowhere_else(world_size):
    start = ring.contributors("reduce_scatter", world_size)

    *_, end = ring.states(ring.schedule("reduce_scatter", world_size), start, ring.join)

    everyone = frozenset(range(world_size))
    assert [end[rank][rank] for rank in range(world_size)] == [everyone] * world_size
    assert sum(chunk == everyone for chunks in end for chunk in chunks) == world_size


@pytest.mark.parametrize("world_size", WORLD_SIZES)
def test_all_gather_brings_every_chunk_to_every_rank(world_size):
    start = ring.contributors("all_gather", world_size)

    *_, end = ring.states(ring.schedule("all_gather", world_size), start, ring.join)

    assert end == (tuple(frozenset({chunk}) for chunk in range(world_size)),) * world_size


@pytest.mark.parametrize("world_size", range(2, 10))
def test_in_every_step_each_rank_sends_once_to_its_right_neighbour(world_size):
    by_step = ring.steps(ring.schedule("all_reduce", world_size))

    assert len(by_step) == 2 * (world_size - 1)
    for step in by_step:
        assert [send.src for send in step] == list(range(world_size))
        assert all(send.dst == (send.src + 1) % world_size for send in step)
        assert len({send.chunk for send in step}) == world_size


@pytest.mark.parametrize("collective", ring.PHASES)
@pytest.mark.parametrize("world_size", WORLD_SIZES)
def test_counted_bytes_are_those_of_the_formula_whatever_the_remainder(collective, world_size):
    """If p does not divide S, ranks differ by a byte a phase at most; their mean is exact."""
    sends = ring.schedule(collective, world_size)
    for size in (0, 1, world_size, 1000, 1001, 4096 * world_size + world_size // 2):
        sent = ring.bytes_sent(sends, ring.chunk_sizes(size, world_size))

        formula = ring.ring_bytes(collective, world_size, size)
        assert Fraction(sum(sent), world_size) == formula
        assert max(sent) - min(sent) <= len(ring.PHASES[collective])


def test_the_formula_is_that_of_the_paper_and_stays_below_two_tensors():
    assert ring.ring_bytes("all_reduce", 8, 2 * 10**9) == 3_500_000_000
    assert ring.ring_bytes("all_reduce", 3, 1) == Fraction(4, 3)
    assert all(ring.ring_bytes("all_reduce", p, 1) < 2 for p in (1, 2, 1000, 10**9))


def test_all_reduce_costs_a_reduce_scatter_and_an_all_gather():
    for p in WORLD_SIZES:
        parts = [ring.ring_bytes(half, p, 12345) for half in ("reduce_scatter", "all_gather")]
        assert ring.ring_bytes("all_reduce", p, 12345) == sum(parts)


def test_chunks_cover_the_tensor_and_differ_by_at_most_one():
    assert ring.chunk_sizes(10, 4) == (3, 3, 2, 2)
    assert ring.chunk_sizes(3, 4) == (1, 1, 1, 0)


def test_states_leave_the_input_alone_and_have_one_entry_per_step_and_the_start():
    start = [[1, 2], [3, 4]]

    held = ring.states(ring.schedule("all_reduce", 2), start, int.__add__)

    assert start == [[1, 2], [3, 4]]
    assert len(held) == 3
    assert held[0] == ((1, 2), (3, 4))


def test_messages_of_one_step_cross_each_other():
    """Two ranks that copy each other's chunk in the same step swap them."""
    crossing = [ring.Send(0, "all_gather", rank, 1 - rank, chunk=0) for rank in (0, 1)]

    *_, end = ring.states(crossing, [["mine"], ["yours"]], str.__add__)

    assert end == (("yours",), ("mine",))


def test_a_contribution_counted_twice_is_refused():
    with pytest.raises(ValueError, match=r"\[1\] would be summed twice"):
        ring.join(frozenset({0, 1}), frozenset({1, 2}))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ring.schedule("gather", 2), "no ring schedule for 'gather'"),
        (lambda: ring.schedule("all_reduce", 0), "world size is 0"),
        (lambda: ring.ring_bytes("all_reduce", -1, 8), "world size is -1"),
        (lambda: ring.chunk_sizes(-4, 2), "size is -4"),
        (lambda: ring.contributors("all_reduce", 0), "world size is 0"),
    ],
)
def test_bad_input_names_the_value_and_the_rule(call, message):
    with pytest.raises(ValueError, match=message):
        call()
