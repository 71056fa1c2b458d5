"""A training script that may be killed at any time: started again, it goes on where it was.

    torchrun --standalone --local-addr=127.0.0.1 --nproc_per_node=2 26_train.py

It keeps checkpoint.pt in the folder where it is started. On as many ranks as before it ends with
the weights of an undisturbed run, bit for bit; on fewer or more, each sample still comes once.
Yours to replace: the constants, make_data, make_model, mean_loss. It needs torch 2.8, no more.
"""

import argparse
import os
import traceback
from contextlib import nullcontext
from itertools import islice
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.nn.functional  # if AdamW were the first to do so, it would keep the group
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, Subset, TensorDataset

GLOBAL_BATCH = 48  # samples per step, however many ranks share them: the learning rate stays right
MICRO_BATCH = 4  # samples that a rank computes at once; it accumulates its share of a step
LEARNING_RATE = 0.01
MAX_NORM = 1.0
SEED = 0
RNGS = {"cpu": torch, "cuda": torch.cuda} if torch.cuda.is_available() else {"cpu": torch}
LAUNCHER = os.getppid()


def make_data(samples, seed):
    """Return a data set: pairs of x (8,) and y (1,)."""
    x = torch.randn(samples, 8, generator=torch.Generator().manual_seed(seed))
    return TensorDataset(x, x.sum(1, keepdim=True).tanh())


def make_model():
    """Return the model, still on the CPU."""
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 1))


def mean_loss(model, batch, args):
    """Return the mean loss over a batch."""
    x, y = (tensor.to(args.device) for tensor in batch)
    with torch.autocast(args.device.type, torch.bfloat16, enabled=args.autocast):
        return nn.functional.mse_loss(model(x), y)


# ---- A step, and an evaluation -------------------------------------------------------------------


def make_loader(data, indices):
    """Return micro-batches of some samples; it draws no number from the ranks' own generators."""
    return DataLoader(Subset(data, indices), MICRO_BATCH, generator=torch.Generator())


def train_step(ddp, optimizer, micro_batches, args):
    """Step along the gradient of the global batch; return this rank's (sum of losses, samples)."""
    sums = torch.zeros(2, dtype=torch.float64, device=args.device)
    optimizer.zero_grad()
    for i, batch in enumerate(micro_batches, start=1):
        last = i == len(micro_batches)
        with nullcontext() if last else ddp.no_sync():  # the forward inside: it decides
            loss = mean_loss(ddp, batch, args)
            (loss / len(micro_batches)).backward()  # the last one averages over the ranks
        sums[0] += loss.detach() * len(batch[0])
        sums[1] += len(batch[0])
    nn.utils.clip_grad_norm_(ddp.parameters(), MAX_NORM)  # averaged by now, so alike on every rank
    optimizer.step()
    return sums


@torch.no_grad()
def evaluate(model, data, args):
    """Return this rank's (sum of losses, samples): its stride of the data, without padding."""
    sums = torch.zeros(2, dtype=torch.float64, device=args.device)
    model.eval()
    for batch in make_loader(data, range(dist.get_rank(), len(data), dist.get_world_size())):
        sums[0] += mean_loss(model, batch, args) * len(batch[0])
        sums[1] += len(batch[0])
    model.train()
    return sums


def log(what, sums):
    """Print the mean loss over the samples of all ranks; every rank must come here."""
    dist.all_reduce(sums)
    if dist.get_rank() == 0:
        print(f"{what}: loss {sums[0] / sums[1]:.4f} over {sums[1]:.0f} samples", flush=True)


# ---- A checkpoint --------------------------------------------------------------------------------


def save(path, parts, position):
    """Write what a later start needs. The file is the old one or the new one, and always whole."""
    rng = {name: of.get_rng_state() for name, of in RNGS.items()}
    every_rng = [None] * dist.get_world_size()
    dist.all_gather_object(every_rng, rng)
    if dist.get_rank() > 0:
        return
    saved = {name: part.state_dict() for name, part in parts.items()}
    half = path.with_suffix(".half")
    with half.open("wb") as file:
        torch.save(saved | {"rng": every_rng, "position": position}, file)
        file.flush()
        os.fsync(file.fileno())
    half.replace(path)


def resume(path, parts):
    """Load what was saved; return the position: the epoch, and how many of its samples are done."""
    rank = dist.get_rank()
    exists = [path.exists()]
    dist.broadcast_object_list(exists)  # rank 0 decides for all: nobody else begins at 0
    if not exists[0]:
        return 0, 0
    try:
        saved = torch.load(path, map_location="cpu", weights_only=True)
        for name, part in parts.items():
            part.load_state_dict(saved[name])
        if rank < len(saved["rng"]):  # else there was no such rank: it begins with its seed
            for name, of in RNGS.items():
                of.set_rng_state(saved["rng"][rank][name])
        epoch, done = saved["position"]
    except Exception as error:
        raise SystemExit(f"{path} cannot be resumed, move it away: {error!r}") from None
    return epoch, done


# ---- The run -------------------------------------------------------------------------------------


def train(args):
    """Train from where the checkpoint is, or from the beginning, to the last epoch."""
    rank = dist.get_rank()
    world = dist.get_world_size()
    data = make_data(400, seed=1)
    held_out = make_data(101, seed=2)
    sampler = DistributedSampler(data, seed=SEED, drop_last=True)
    steps = args.epochs * (len(data) // GLOBAL_BATCH)

    torch.manual_seed(SEED)
    model = make_model().to(args.device)
    optimizer = torch.optim.AdamW(model.parameters(), LEARNING_RATE)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    ddp = DistributedDataParallel(model)  # without device_ids: mean_loss moves the inputs
    # The first backward makes DDP reorder its buckets, and with them the sums of three ranks or
    # more. It comes before all steps, so that a resumed run adds as the undisturbed one does.
    mean_loss(ddp, data[:MICRO_BATCH], args).backward()
    torch.manual_seed(SEED + 1 + rank)  # weights are the same on every rank, dropout is not
    parts = {"model": ddp.module, "optimizer": optimizer, "scheduler": scheduler}
    first, done = resume(args.checkpoint, parts)
    accumulation, rest = divmod(GLOBAL_BATCH, MICRO_BATCH * world)
    if rest or done % world:
        raise SystemExit(
            f"{world} ranks cannot share {GLOBAL_BATCH} samples, {MICRO_BATCH} at a time"
        )
    if scheduler.T_max != steps:  # its learning rates were planned for another number
        raise SystemExit(
            f"{args.checkpoint} is of a run of {scheduler.T_max} steps, --epochs {args.epochs} "
            f"makes {steps}: give the old --epochs, or move it away"
        )
    if rank == 0:
        print(f"{world} ranks begin at epoch {first}, sample {done}", flush=True)

    for epoch in range(first, args.epochs):
        sampler.set_epoch(epoch)  # another order, the same on every rank
        mine = list(sampler)[done // world :]  # this rank's share of what is not done
        micro_batches = iter(make_loader(data, mine))
        sums = torch.zeros(2, dtype=torch.float64, device=args.device)
        while len(data) - done >= GLOBAL_BATCH:  # the rest is too small for a step
            sums += train_step(ddp, optimizer, list(islice(micro_batches, accumulation)), args)
            scheduler.step()
            done += GLOBAL_BATCH
            ends = len(data) - done < GLOBAL_BATCH
            if os.getppid() != LAUNCHER:
                raise SystemExit("the launcher is gone: its successor may use the same checkpoint")
            if ends or done // GLOBAL_BATCH % args.save_every == 0:
                position = (epoch + 1, 0) if ends else (epoch, done)
                save(args.checkpoint, parts, position)
        done = 0
        log(f"epoch {epoch}, training", sums)
        log(f"epoch {epoch}, held out", evaluate(ddp.module, held_out, args))


def join_group():
    """Meet the other ranks; return the device of this one."""
    if not torch.cuda.is_available():
        dist.init_process_group("gloo")
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)  # else all ranks of a node use GPU 0
    dist.init_process_group("nccl", device_id=device)
    return device


def main():
    """Read the options, train in a group, leave it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--checkpoint", type=Path, default="checkpoint.pt")
    parser.add_argument("--save-every", type=int, default=4, metavar="STEPS")
    parser.add_argument("--autocast", action="store_true", help="compute in bfloat16")
    args = parser.parse_args()
    if not args.checkpoint.absolute().parent.is_dir():
        parser.error(f"{args.checkpoint.parent}, where the checkpoint would be kept, is no folder")
    args.device = join_group()
    try:
        train(args)
        dist.barrier()  # only here: after an error it would wait for ranks that do not come
    except BaseException as error:
        # The traceback keeps train's DDP alive, and that must go before its group: free the frames.
        traceback.clear_frames(error.__traceback__)
        raise
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
