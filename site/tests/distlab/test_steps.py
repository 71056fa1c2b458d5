"""The kept recording is a run of the schedule: buckets, order and bounds are the model's."""

from itertools import pairwise

import pytest

from distlab import timeline
from distlab.figures import steps

KEPT = steps.load()
CASES = [(bucket, link) for bucket in KEPT.caps for link in KEPT.links]


@pytest.mark.parametrize(("bucket", "link"), CASES)
@pytest.mark.parametrize("way", timeline.WAYS)
def test_a_recorded_step_reduces_as_often_as_the_model_and_never_sooner(bucket, link, way):
    """The slow link only adds time, so each step takes at least as long as the model says."""
    spans = KEPT.spans(bucket, link, way)
    model = timeline.variants(KEPT.layers, KEPT.caps[bucket], KEPT.links[link])[way]

    assert timeline.length(spans) >= timeline.length(model) - 1e-4
    for rank in range(steps.RANKS):
        assert sorted(timeline.order(own(spans, "backward"), rank)) == sorted(
            timeline.order(own(model, "backward"), 0)
        )
        reduced = timeline.order(own(spans, "all_reduce"), rank)
        assert reduced == timeline.order(own(model, "all_reduce"), 0)


@pytest.mark.parametrize(("bucket", "link"), CASES)
def test_recorded_collectives_wait_for_their_gradients_and_for_each_other(bucket, link):
    packed = timeline.buckets(KEPT.layers, KEPT.caps[bucket])
    for rank in range(steps.RANKS):
        spans = [s for s in KEPT.spans(bucket, link, "overlapped") if s.rank == rank]
        ends = {span.name: span.end for span in own(spans, "backward")}
        reduces = own(spans, "all_reduce")
        for layers, reduce in zip(packed, reduces, strict=True):
            assert reduce.start >= max(ends[layer.name] for layer in layers) - 2e-5
        assert all(a.end <= b.start + 2e-5 for a, b in pairwise(reduces))


def own(spans, kind):
    return [span for span in spans if span.kind == kind]


def test_overlap_hides_something_wherever_there_is_more_than_one_bucket():
    for bucket, link in CASES:
        spans = KEPT.spans(bucket, link, "overlapped")
        several = len(timeline.buckets(KEPT.layers, KEPT.caps[bucket])) > 1
        assert (timeline.hidden_fraction(spans, rank=0) > 0.1) == several


def test_measuring_again_gives_a_recording_of_the_same_shape(launcher):
    cap, link = {"3 layers": 3 * 2**16}, {"quick": timeline.Link(0.001, 0.0)}

    again = steps.measure(launcher, cap, link, repeats=1)
    read = steps.parse(steps.json.loads(steps.to_json(again)))

    assert list(read.steps) == list(again.steps)
    assert len(again.spans("3 layers", "quick", "overlapped")) == 2 * (6 + 2)
    assert {span.rank for span in again.spans("any", "quick", "naive")} == {0, 1}


def test_a_failed_measurement_says_what_its_ranks_said(launcher, monkeypatch):
    monkeypatch.setattr(steps, "PROGRAM", "raise SystemExit('no network today')")

    with pytest.raises(RuntimeError, match="no network today"):
        steps.measure(launcher)
