"""What is shown of DistributedSampler is what it does: counts, repeats, cuts and epochs."""

from collections import Counter

import pytest

from distlab import sampling
from distlab.sampling import Sharding


def indices(epoch):
    return [[slot.index for slot in slots] for slots in epoch.ranks]


def test_ten_examples_on_three_ranks_are_those_that_module_26_prints():
    first, second = sampling.epochs(Sharding(length=10, world_size=3), 2)

    assert indices(first) == [[4, 5, 0, 2], [1, 3, 8, 4], [7, 9, 6, 1]]
    assert indices(second)[0] == [5, 2, 9, 4]


def test_the_slots_marked_as_repeats_are_the_first_entries_of_the_permutation_again():
    (epoch,) = sampling.epochs(Sharding(length=10, world_size=3), 1)

    repeats = [(rank, s.index) for rank, slots in enumerate(epoch.ranks) for s in slots if s.repeat]
    assert repeats == [(1, 4), (2, 1)]  # rank 0's first, then rank 1's first


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("length", [1, 2, 5, 8, 13, 16])
def test_without_drop_last_every_index_is_there_once_and_the_rest_is_marked(
    length, world_size, shuffle
):
    (epoch,) = sampling.epochs(Sharding(length, world_size, shuffle=shuffle), 1)

    slots = [slot for rank in epoch.ranks for slot in rank]
    fresh = Counter(slot.index for slot in slots if not slot.repeat)
    assert fresh == Counter(range(length))
    assert len(slots) == -(-length // world_size) * world_size
    assert len({len(rank) for rank in epoch.ranks}) == 1
    assert epoch.dropped == ()


@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("length", [1, 2, 5, 8, 13, 16])
def test_with_drop_last_nothing_repeats_and_what_is_missing_is_named(length, world_size):
    (epoch,) = sampling.epochs(Sharding(length, world_size, drop_last=True), 1)

    slots = [slot for rank in epoch.ranks for slot in rank]
    assert not any(slot.repeat for slot in slots)
    assert sorted([slot.index for slot in slots] + list(epoch.dropped)) == list(range(length))
    assert len(epoch.dropped) == length % world_size


def test_fewer_examples_than_ranks_leave_every_rank_empty_under_drop_last():
    (epoch,) = sampling.epochs(Sharding(length=3, world_size=4, drop_last=True), 1)

    assert epoch.ranks == ((), (), (), ())
    assert epoch.dropped == (0, 1, 2)


def test_without_set_epoch_every_epoch_is_the_first():
    sharding = Sharding(length=12, world_size=4)
    with_call = [indices(e) for e in sampling.epochs(sharding, 3)]
    without = [indices(e) for e in sampling.epochs(sharding, 3, set_epoch=False)]

    assert without == [with_call[0]] * 3
    assert len({str(order) for order in with_call}) == 3


def test_seed_and_epoch_are_added_so_that_they_can_stand_for_each_other():
    _, second = sampling.epochs(Sharding(length=12, world_size=2), 2)
    first, _ = sampling.epochs(Sharding(length=12, world_size=2, seed=1), 2)

    assert indices(first) == indices(second)


@pytest.mark.parametrize(("length", "world_size"), [(0, 2), (4, 0), (-1, 1)])
def test_bad_input_names_the_value_and_the_rule(length, world_size):
    with pytest.raises(ValueError, match="there must be 1 or more"):
        Sharding(length, world_size)
