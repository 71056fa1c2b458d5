"""Task 8: a distributed sampler, and a mean that forgets its padding."""

from __future__ import annotations

from distlab.practice.task import COLLECTIVES, Task

TASK = Task(
    id="8",
    stem="08_sampler",
    title="distributed sampler with exact evaluation",
    proves="ranks of equal length that cover the data set, a new order per epoch that all ranks "
    "share, and a metric that counts every sample once",
    asks=("ShardedSampler", "exact_mean"),
    hints=(
        "Ranks need disjoint shares of one order. What must they agree on without communicating?",
        "Draw one permutation from a torch.Generator seeded with seed and epoch (never with the "
        "rank), repeat it until it fills p * ceil(n / p) places, take every p-th from place `rank` "
        "on. Place j of rank r is global place j * p + r: it is padding if that is >= n.",
        "places = ceil(n / p); order = (order * ceil(places * p / n))[: places * p]; "
        "mine = order[rank::p]. exact_mean: keep the values whose global place is < n, all_reduce "
        "their sum and their count, divide.",
    ),
    allows=COLLECTIVES,
    bans=(("DistributedSampler", "it is what this task rebuilds"),),
    hangs="exact_mean has to call the same collectives on every rank, also where all is padding.",
)
TASKS = (TASK,)

LENGTHS = (12, 10, 7, 2, 1, 0)


def run(bench) -> None:
    """Run over lengths that the ranks divide and do not, fewer samples than ranks, and none."""
    for shuffle in (False, True):
        for length in LENGTHS:
            with bench.case(f"{length} samples, shuffle={shuffle}"):
                _covers(bench, length, shuffle)
    with bench.case("100 samples, epochs"):
        _epochs(bench)
    for length in (12, 10, 7, 1):
        with bench.case(f"exact_mean over {length} samples"):
            _exact(bench, length)


def _covers(bench, length: int, shuffle: bool) -> None:
    import torch

    before = torch.get_rng_state()
    sampler = bench.answer.ShardedSampler(length, shuffle=shuffle, seed=3)
    mine = [int(index) for index in sampler]
    think = "torch's global generator has moved: dropout and initial values would change with the "
    think += "sampler. Draw from a torch.Generator of your own."
    bench.require(torch.equal(before, torch.get_rng_state()), "the global seed was touched", think)
    each = -(-length // bench.world)
    think = "Every rank gets ceil(n / p) samples, or one would make a step that the others do not "
    think += "make and they would wait for it. Fill up by repeating from the beginning."
    for what, number in (("indices given", len(mine)), ("len(sampler)", len(sampler))):
        bench.require(number == each, what, think, str(each), number)
    if not shuffle:
        order = [index % length for index in range(bench.rank, each * bench.world, bench.world)]
        think = "Without shuffling, place i of the data set's order goes to rank i % p."
        bench.require(mine == order, "the indices of this rank", think, str(order), mine)
    bench.across(mine, lambda every: _union(bench, length, every))


def _union(bench, length: int, every: list[list[int]]) -> None:
    drawn = [index for mine in every for index in mine]
    missing = sorted(set(range(length)) - set(drawn))
    strange = sorted(set(drawn) - set(range(length)))
    think = "All ranks must cut the same order: is your permutation seeded with the rank?"
    bench.require(not strange, "there are indices that do not exist", think, "", strange)
    what = "the ranks together leave samples out"
    bench.require(not missing, what, think, "every sample on some rank", f"none has {missing}")
    often = max((drawn.count(index) for index in set(drawn)), default=0)
    rounds = -(-len(drawn) // length) if length else 0
    think = "Repeat the whole order from its beginning, not one sample again and again."
    bench.require(often <= rounds, "a sample is repeated too often", think, str(rounds), often)


def _epochs(bench) -> None:
    sampler = bench.answer.ShardedSampler(100, shuffle=True, seed=3)
    first, again = list(sampler), list(sampler)
    think = "One epoch has one order: seed a fresh generator in __iter__, not in __init__."
    bench.require(first == again, "the same epoch gave two orders", think)
    sampler.set_epoch(1)
    second = list(sampler)
    think = "set_epoch must change the permutation: put the epoch into the generator's seed."
    bench.require(first != second, "epoch 1 has the order of epoch 0", think)
    sampler.set_epoch(0)
    think = "Going back to epoch 0 must bring back its order: a resumed run repeats it."
    bench.require(list(sampler) == first, "epoch 0 has another order the second time", think)
    think = "shuffle=True has to mean another order than the data set's, in every epoch."
    bench.require(sorted(first) != first, "shuffle=True gave the plain order", think)
    other = list(bench.answer.ShardedSampler(100, shuffle=True, seed=4))
    think = "The seed must change the permutation."
    bench.require(other != first, "seeds 3 and 4 give one order", think)
    bench.across(second, lambda every: _union(bench, 100, every))


def _exact(bench, length: int) -> None:
    import torch

    sampler = bench.answer.ShardedSampler(length, shuffle=True, seed=5)
    values = torch.arange(length, dtype=torch.float64).add(1).pow(2)
    mine = values[torch.tensor(list(sampler), dtype=torch.int64)]
    got = bench.answer.exact_mean(mine.clone(), sampler)
    got = torch.as_tensor(got, dtype=torch.float64)
    known = [(mine.mean(), "This is the mean of this rank's samples only.")]
    if length % bench.world:
        known += [(mean, _counted_twice(length, bench.world)) for mean in _padded(bench, values)]
    think = "Add up the values of all real samples over all ranks, and count them; then divide."
    bench.close("exact_mean", got, values.mean(), think, tuple(known))


def _padded(bench, values) -> list:
    """Return the means that count what this answer's own padding repeats."""
    import torch

    length, world = len(values), bench.world
    sampler = bench.answer.ShardedSampler(length, shuffle=True, seed=5)
    order = [0] * (len(sampler) * world)
    with bench.record.quietly():
        everyone: list = [None] * world
        torch.distributed.all_gather_object(everyone, list(sampler))
    for rank, mine in enumerate(everyone):
        order[rank::world] = mine
    drawn = values[torch.tensor(order)]
    parts = torch.stack([drawn[rank::world].mean() for rank in range(world)])
    return [drawn.mean(), parts.mean()]


def _counted_twice(length: int, world: int) -> str:
    return (
        f"{length} samples on {world} ranks are padded to {-(-length // world) * world}: this mean "
        "counts the repeated ones again. Leave them out on the ranks that hold them."
    )


RUNS = {"8": run}
