"""How ranks are named in a sentence or a label: the one place that writes it."""

from __future__ import annotations

from collections.abc import Iterable


def row(first: int, last: int) -> str:
    """Return "rank 0" or, of neighbours, "ranks 0-3"."""
    return f"rank {first}" if first == last else f"ranks {first}-{last}"


def listed(ranks: Iterable[int]) -> str:
    """Return "rank 2" or "ranks 0, 1 and 3": each rank by its number, in the order given."""
    return _joined([str(rank) for rank in ranks])


def grouped(ranks: Iterable[int]) -> str:
    """Return "rank 2", "ranks 0 and 3" or, of three in a row and more, "ranks 0-2 and 5"."""
    rows: list[list[int]] = []
    for rank in sorted(ranks):
        if rows and rank == rows[-1][-1] + 1:
            rows[-1].append(rank)
        else:
            rows.append([rank])
    return _joined([word for each in rows for word in _row_words(each)])


def _row_words(ranks: list[int]) -> list[str]:
    return [f"{ranks[0]}-{ranks[-1]}"] if len(ranks) > 2 else [str(rank) for rank in ranks]


def _joined(words: list[str]) -> str:
    if len(words) == 1:
        return f"rank{'s' * ('-' in words[0])} {words[0]}"
    return f"ranks {', '.join(words[:-1])} and {words[-1]}"
