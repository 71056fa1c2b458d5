"""Timelines of one DDP step, measured and modelled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from distlab import plots, timeline
from distlab.figures import markup, steps
from distlab.figures.markup import Column
from distlab.timeline import Layer, Link, Span

CHOICES = {"source": "Times", "bucket": "Bucket cap", "link": "Network"}
DRAWN_WAYS = ("naive", "overlapped")


@dataclass(frozen=True, eq=False)
class TimelineCase:
    """One choice of the reader's: spans of all ranks for each way to communicate.

    `source` says where the spans come from ("measured", "model"), `bucket` and `link` are what
    the reader chooses, in words.
    """

    source: str
    bucket: str
    link: str
    ways: Mapping[str, Sequence[Span]]


def model_cases(
    layers: Sequence[Layer], caps: Mapping[str, int], links: Mapping[str, Link]
) -> tuple[TimelineCase, ...]:
    """Return the model's cases for every named bucket cap (bytes) and link.

    `layers` are in the order of backward.
    """
    return tuple(
        TimelineCase("model", bucket, name, timeline.variants(layers, cap, link))
        for bucket, cap in caps.items()
        for name, link in links.items()
    )


def recorded_cases(kept: steps.Steps) -> tuple[TimelineCase, ...]:
    """Return a recording's cases, and after them the model's for the same caps and links."""
    measured = tuple(
        TimelineCase(
            "measured", bucket, link, {way: kept.spans(bucket, link, way) for way in timeline.WAYS}
        )
        for bucket in kept.caps
        for link in kept.links
    )
    return measured + model_cases(kept.layers, kept.caps, kept.links)


def ddp_timeline(cases: Sequence[TimelineCase] | None = None) -> str:
    """Return timelines of one step, to choose by source, bucket cap and link.

    Without `cases`: the kept recording and the model beside it. The ways of DRAWN_WAYS are drawn;
    the table of the static figure has all that the cases have, which must be the same in each.
    Raises ValueError if there is no case.
    """
    note = ""
    if cases is None:
        kept = steps.load()
        cases, note = recorded_cases(kept), f" Measured: {kept.recorded}."
    if not cases:
        raise ValueError("no case to draw: pass at least one TimelineCase")
    choices = {name: list(dict.fromkeys(getattr(case, name) for case in cases)) for name in CHOICES}
    drawn = {case: _drawn(case, cases) for case in cases}
    drawings = list(dict.fromkeys(drawing for both in drawn.values() for drawing in both))
    return markup.figure(
        "ddp-timeline",
        legend="Backward and all-reduce",
        controls="".join(
            markup.select(name, label, dict(enumerate(choices[name])), 0)
            for name, label in CHOICES.items()
        ),
        live='<p role="status"></p><div data-drawing></div>',
        summary="All cases in numbers",
        static="".join(drawn[cases[0]]) + _timeline_table(cases),
        data={
            "drawings": drawings,
            "cases": [
                {name: choices[name].index(getattr(case, name)) for name in CHOICES}
                | {
                    "words": _timeline_words(case),
                    "drawn": [drawings.index(d) for d in drawn[case]],
                }
                for case in cases
            ],
        },
        caption="One backward on every rank, its all-reduces below it. A layer keeps its number "
        "and colour. In the overlapped way a bucket leaves as soon as its last gradient is there "
        "and the network is free." + note,
    )


def _drawn(case: TimelineCase, cases: Sequence[TimelineCase]) -> tuple[str, ...]:
    """Draw a case's DRAWN_WAYS to the scale of all cases that share its source and link."""
    longest = max(
        timeline.length(other.ways[way])
        for other in cases
        for way in DRAWN_WAYS
        if (other.source, other.link) == (case.source, case.link)
    )
    packed = f", buckets of {case.bucket}"
    return tuple(
        f'<p style="{markup.SMALL}"><strong>{way}</strong></p>'
        + plots.timeline(
            f"{way}, {case.source}, {case.link}{packed if way == DRAWN_WAYS[-1] else ''}",
            case.ways[way],
            longest,
        )
        for way in DRAWN_WAYS
    )


def _timeline_words(case: TimelineCase) -> str:
    naive, overlapped = (plots.milliseconds(timeline.length(case.ways[w])) for w in DRAWN_WAYS)
    hidden = timeline.hidden_fraction(case.ways["overlapped"], rank=0)
    return (
        f"A step takes {naive} naive and {overlapped} overlapped, "
        f"which hides {hidden:.0%} of rank 0's all-reduce time under backward."
    )


def _timeline_table(cases: Sequence[TimelineCase]) -> str:
    rows = [
        (
            case.source,
            case.bucket,
            case.link,
            *(plots.milliseconds(timeline.length(spans)) for spans in case.ways.values()),
            f"{timeline.hidden_fraction(case.ways['overlapped'], rank=0):.0%}",
        )
        for case in cases
    ]
    columns = [Column(name) for name in CHOICES.values()]
    columns += [Column(way, number=True) for way in (*cases[0].ways, "hidden")]
    return markup.table(columns, rows)
