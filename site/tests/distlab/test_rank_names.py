"""Ranks are named alike wherever a sentence or a label names them."""

import pytest

from distlab.spmd import rank_names


@pytest.mark.parametrize(
    ("ranks", "text"),
    [((3,), "rank 3"), ((0, 3), "ranks 0 and 3"), ((0, 1), "ranks 0 and 1"),
     ((0, 1, 2), "ranks 0-2"), ((0, 1, 2, 5), "ranks 0-2 and 5"),
     ((0, 2, 3, 7, 8, 9), "ranks 0, 2, 3 and 7-9")],
)  # fmt: skip
def test_three_ranks_in_a_row_are_written_as_a_range(ranks, text):
    assert rank_names.grouped(ranks) == text


@pytest.mark.parametrize(
    ("ranks", "text"),
    [((3,), "rank 3"), ((0, 3), "ranks 0 and 3"), ((2, 0, 1), "ranks 2, 0 and 1")],
)
def test_ranks_that_are_listed_each_have_their_number(ranks, text):
    assert rank_names.listed(ranks) == text


@pytest.mark.parametrize(("ends", "text"), [((2, 2), "rank 2"), ((0, 1), "ranks 0-1")])
def test_neighbours_in_a_row_are_named_by_its_ends(ends, text):
    assert rank_names.row(*ends) == text
