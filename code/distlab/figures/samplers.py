"""Which rank gets which index, for a grid of data sets and ranks."""

from distlab import sampling
from distlab.figures import markup
from distlab.figures.markup import Column

LENGTHS = (3, 8, 9, 10, 11, 12, 13)
WORLD_SIZES = (2, 3, 4, 8)
EPOCHS = 4


def distributed_sampler(length: int = 10, world_size: int = 3) -> str:
    """Return who gets which index, for a grid of lengths and ranks; needs torch.

    `length` and `world_size` are shown first; both must be in the grid, else ValueError.
    """
    if length not in LENGTHS or world_size not in WORLD_SIZES:
        raise ValueError(
            f"length {length} on {world_size} ranks is not in the figure's grid: choose a length "
            f"of {LENGTHS} and a world size of {WORLD_SIZES}"
        )
    shown = sampling.epochs(sampling.Sharding(length, world_size), 2)
    return markup.figure(
        "distributed-sampler",
        legend="DistributedSampler",
        controls=markup.select("examples", "Examples", {n: n for n in LENGTHS}, length)
        + markup.select("ranks", "Ranks", {p: p for p in WORLD_SIZES}, world_size)
        + markup.slider("epoch", "Epoch", 0, EPOCHS - 1, 0)
        + markup.checkbox("drop_last", "drop_last=True")
        + markup.checkbox("set_epoch", "set_epoch(epoch) is called", checked=True),
        live='<p role="status"></p><div class="wide"><table class="data"></table></div>',
        summary=f"{length} examples on {world_size} ranks, two epochs",
        static="".join(map(_epoch_table, shown)),
        data={
            str(drop): {n: {p: _shards(n, p, drop) for p in WORLD_SIZES} for n in LENGTHS}
            for drop in (False, True)
        },
        caption="What torch's DistributedSampler(shuffle=True, seed=0) gives to each rank. An "
        "index marked “again” only pads the ranks to equal counts.",
    )


def _shards(length: int, world_size: int, drop_last: bool) -> dict:
    """Return each epoch's indices per rank; a repeat r is written ~r. `stale`: no set_epoch."""
    sharding = sampling.Sharding(length, world_size, drop_last=drop_last)
    fresh, stale = (
        [
            [[~slot.index if slot.repeat else slot.index for slot in rank] for rank in epoch.ranks]
            for epoch in sampling.epochs(sharding, EPOCHS, set_epoch=called)
        ]
        for called in (True, False)
    )
    # Without set_epoch an order is one of those with it; say which, measured, not assumed.
    dropped = [epoch.dropped for epoch in sampling.epochs(sharding, EPOCHS)]
    return {"epochs": fresh, "stale": [fresh.index(order) for order in stale], "dropped": dropped}


def _epoch_table(epoch: sampling.Epoch) -> str:
    turns = max(map(len, epoch.ranks))
    columns = [Column(f"Epoch {epoch.epoch}")]
    columns += [Column(f"turn {turn}", number=True) for turn in range(turns)]
    rows = [
        (f"rank {rank}", *(f"{s.index} again" if s.repeat else s.index for s in slots))
        for rank, slots in enumerate(epoch.ranks)
    ]
    return markup.table(columns, rows)
