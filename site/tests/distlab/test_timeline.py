"""The schedule model against closed forms, and the reading of spans against cases done by hand."""

from itertools import pairwise

import pytest

from distlab import timeline
from distlab.timeline import Layer, Link, Span

MIB = 2**20
EIGHT = tuple(Layer(f"layer {n}", backward=2.0, bytes=MIB) for n in reversed(range(8)))
LINK = Link(alpha=0.5, beta=1.0 / MIB)  # 1.5 s for one layer, 0.5 s of them latency


def spans_of(spans, kind):
    return [span for span in spans if span.kind == kind]


def test_one_all_reduce_per_layer_pays_the_latency_once_per_layer():
    ways = timeline.variants(EIGHT, cap=2 * MIB, link=LINK)

    assert timeline.length(ways["naive"]) == 8 * 2.0 + 8 * 0.5 + 8 * 1.0
    assert timeline.length(ways["flat"]) == 8 * 2.0 + 0.5 + 8 * 1.0
    assert timeline.length(ways["bucketed"]) == 8 * 2.0 + 4 * 0.5 + 8 * 1.0


def test_overlap_leaves_only_the_last_bucket_after_backward_when_the_link_is_fast_enough():
    ways = timeline.variants(EIGHT, cap=2 * MIB, link=LINK)

    assert timeline.length(ways["overlapped"]) == 8 * 2.0 + (0.5 + 2 * 1.0)


def test_overlap_on_a_slow_link_starts_after_the_first_bucket_and_then_waits_for_the_link():
    slow = Link(alpha=0.0, beta=10.0 / MIB)

    spans = timeline.variants(EIGHT, cap=2 * MIB, link=slow)["overlapped"]

    assert timeline.length(spans) == 2 * 2.0 + 8 * 10.0


def test_no_collective_starts_before_its_gradients_and_never_two_at_once():
    for cap in (1, MIB, 3 * MIB, 100 * MIB):
        spans = timeline.variants(EIGHT, cap=cap, link=LINK)["overlapped"]
        ready = {span.name: span.end for span in spans_of(spans, "backward")}
        reduces = spans_of(spans, "all_reduce")
        for bucket, reduce in zip(timeline.buckets(EIGHT, cap), reduces, strict=True):
            assert reduce.start >= max(ready[layer.name] for layer in bucket)
        assert all(a.end <= b.start for a, b in pairwise(reduces))


def test_buckets_close_once_they_reach_the_cap_so_they_may_exceed_it():
    """As measured on torch 2.8: 4 MiB layers under a 25 MiB cap give buckets of 28 MiB."""
    layers = tuple(Layer(str(n), backward=1.0, bytes=4 * MIB) for n in range(12))

    sizes = [sum(x.bytes for x in b) // MIB for b in timeline.buckets(layers, 25 * MIB, MIB)]

    assert sizes == [4, 28, 16]
    assert [len(bucket) for bucket in timeline.buckets(layers, 25 * MIB)] == [7, 5]


def test_every_packing_holds_each_layer_once_in_the_order_of_backward():
    for packed in (
        timeline.per_tensor(EIGHT),
        timeline.flat(EIGHT),
        timeline.buckets(EIGHT, 3 * MIB),
    ):
        assert tuple(layer for bucket in packed for layer in bucket) == EIGHT


def test_a_ring_costs_two_p_minus_one_messages_of_a_chunk_each():
    link = timeline.ring_link(latency=1e-5, bandwidth=1e9, world_size=4)

    assert link.seconds(4_000_000) == pytest.approx(6 * (1e-5 + 1_000_000 / 1e9))


def test_hidden_time_is_the_intersection_and_overlapping_spans_count_once():
    spans = [
        Span(0, "backward", "b1", 0, 4),
        Span(0, "backward", "b0", 4, 6),
        Span(0, "all_reduce", "bucket 0", 3, 5),
        Span(0, "all_reduce", "bucket 1", 4, 9),
        Span(1, "backward", "b1", 0, 100),
    ]

    assert timeline.covered(spans, "all_reduce", rank=0) == 6  # 3 to 9, not 2 + 5
    assert timeline.hidden_seconds(spans, rank=0) == 3  # 3 to 6
    assert timeline.hidden_fraction(spans, rank=0) == 0.5
    assert timeline.hidden_fraction(spans, rank=1) == 0.0


def test_a_span_inside_another_adds_nothing():
    spans = [Span(0, "all_reduce", "a", 0, 10), Span(0, "all_reduce", "b", 2, 3)]

    assert timeline.covered([*spans, Span(0, "all_reduce", "c", 9, 12)], "all_reduce", rank=0) == 12


def test_order_is_that_of_the_starts_and_of_one_rank_only():
    spans = [
        Span(0, "all_reduce", "B0", 2, 5),
        Span(0, "backward", "g0", 3, 4),
        Span(1, "backward", "other", 0, 1),
        Span(0, "backward", "g1", 0, 2),
    ]

    assert timeline.order(spans, rank=0) == ("g1", "B0", "g0")


def test_length_runs_from_the_first_start_to_the_last_end_over_all_ranks():
    spans = [Span(0, "step", "a", 5, 6), Span(1, "step", "b", 4, 5.5)]

    assert timeline.length(spans) == 2
    assert timeline.length([]) == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Span(0, "sleep", "x", 0, 1), "no kind of span 'sleep'"),
        (lambda: Span(0, "wait", "x", 2, 1), "ends at 1, before its start at 2"),
    ],
)
def test_bad_input_names_the_value_and_the_rule(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_layer_is_named_by_its_backward_and_by_what_carries_its_gradient():
    spans = timeline.variants(EIGHT, cap=2 * MIB, link=LINK)["overlapped"]

    assert spans_of(spans, "backward")[0].layers == ("layer 7",)
    assert [span.layers for span in spans_of(spans, "all_reduce")][:2] == [
        ("layer 7", "layer 6"),
        ("layer 5", "layer 4"),
    ]
    bare = [Span(s.rank, s.kind, s.name, s.start, s.end) for s in spans]
    assert timeline.with_layers(bare, timeline.buckets(EIGHT, 2 * MIB)) == spans


def test_a_whole_step_puts_the_optimizer_after_the_last_gradient():
    spans = timeline.variants(EIGHT, cap=2 * MIB, link=LINK)["naive"]

    forward, *middle, step = timeline.whole_step(spans, forward=4.0, step=1.0)

    assert (forward.start, forward.end, middle[0].start) == (0, 4, 4)
    assert (step.start, step.end) == (4 + timeline.length(spans), 5 + timeline.length(spans))


@pytest.mark.parametrize("way", timeline.WAYS)
def test_a_way_packs_as_its_variant_does(way):
    spans = timeline.variants(EIGHT, 2 * MIB, LINK)[way]
    packed = timeline.packing(way, EIGHT, 2 * MIB)

    names = [tuple(layer.name for layer in bucket) for bucket in packed]
    assert names == [span.layers for span in spans_of(spans, "all_reduce")]


def test_an_unknown_way_is_refused():
    with pytest.raises(ValueError, match="no way 'telepathy' to communicate"):
        timeline.packing("telepathy", EIGHT, MIB)
