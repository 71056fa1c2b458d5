"""What must make the build fail: for each claim that module 26 marks *executed*, a wrong program.

A mutation replaces `old`, which stands once in the fence, by `new`; the mutant either does what
the page warns of, or asserts the opposite of what it says. A mutant that still ends as its fence
declares has survived: then the fence does not prove the claim.
"""

from modules.parts import Mutation

MUTATIONS = (
    # The opening and 26.1
    Mutation("first-run", "the mean of means is 6", "mean /= world", "mean /= 4"),
    Mutation("first-run", "all ranks take part", "dist.all_reduce(mean)", "pass"),
    Mutation("who-am-i", "four processes", "os.getpid())", "os.getppid())"),
    Mutation("who-am-i", "a rank's own shard", "[rank::world]", "[:3]"),
    Mutation("torchrun-env", "18 variables", "== 18", "== 5"),
    Mutation(
        "torchrun-env",
        "asynchronous error handling is exported",
        'os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"]',
        'os.environ["NCCL_ASYNC_ERROR_HANDLING"]',
    ),
    # 26.2
    Mutation("init-refusals", "nccl needs a GPU", 'refusal("nccl")', 'refusal("gloo")'),
    Mutation("init-refusals", "device_id is refused", ', device_id=torch.device("cpu")', ""),
    Mutation("store", "get waits for the key of the other", "{1 - rank}", "{rank}"),
    Mutation("store", "libuv is the default", "wait_for_workers=False", "use_libuv=False"),
    Mutation("subgroups", "pairs are consecutive", "group_size=2", "group_size=4"),
    Mutation("subgroups", "new_group sorts", "[-1, 0, -1, 1]", "[-1, 1, -1, 0]"),
    Mutation("members-only", "the next new_group hangs", "if rank < 2:", "if True:"),
    Mutation(
        "group-timeout",
        "a new group has its own",
        "dist.new_group()",
        "dist.new_group(timeout=timedelta(seconds=7))",
    ),
    Mutation("group-timeout", "10 minutes for NCCL", "minutes=10", "minutes=30"),
    Mutation(
        "destroy-twice",
        "a second destroy raises",
        "flush=True)\ndist.destroy_process_group()",
        "flush=True)",
    ),
    # 26.3
    Mutation("elastic-restart", "a restart resumes", "if saved.exists() else 0", "if 0 else 0"),
    Mutation("elastic-restart", "restarts are asked for", "--max_restarts=1", "--max_restarts=0"),
    Mutation("exit-status", "the status is 1", "[ $status = 1 ]", "[ $status = 7 ]"),
    Mutation("exit-status", "@record names the error", "@record\n", "\n"),
    # 26.4
    Mutation("all-reduce", "in place, nothing returned", "all_reduce(x)", "all_reduce(x.clone())"),
    Mutation("all-reduce", "nothing is returned", "dist.all_reduce(x) ", "[dist.all_reduce(x)] "),
    Mutation(
        "all-reduce",
        "the default is SUM",
        "dist.all_reduce(x) ",
        "dist.all_reduce(x, dist.ReduceOp.MAX) ",
    ),
    Mutation("reduce-scatter", "rank j keeps chunk j", "60 + 4 * rank", "60"),
    Mutation("all-gather", "in rank order", "[0, 0, 1, 10,", "[1, 10, 0, 0,"),
    Mutation("broadcast", "the source overwrites", "src=0", "src=1"),
    Mutation("all-to-all", "chunk j goes to rank j", "single(y, x)", "single(y, x.flip(0))"),
    Mutation("rooted", "only the root has the sum", "dist.reduce(x, dst=0)", "dist.all_reduce(x)"),
    Mutation("rooted", "rank 3 keeps its own", "range(rank, 4)", "range(min(rank, 2), 4)"),
    Mutation(
        "rooted",
        "scatter gives each its own",
        "torch.arange(4.0).split(1)",
        "torch.zeros(4).split(1)",
    ),
    Mutation("rooted", "gather keeps rank order", "[0, 1, 2, 3]", "[3, 2, 1, 0]"),
    Mutation("ring", "p - 1 rounds of adding", "if step < p - 1:", "if step < p:"),
    Mutation("ring", "2(p-1) rounds", "range(2 * (p - 1))", "range(2 * p - 1)"),
    Mutation("ring", "a round sends one chunk", "chunks[give].nbytes", "x.nbytes"),
    Mutation("ring", "in place", "x.chunk(p) ", "x.clone().chunk(p) "),
    Mutation("send-ring", "blocking sends wait for ever", "dist.send(", "work = dist.isend("),
    Mutation("ring-model", "the bound is 2S", "2 * (p - 1), size / p", "2 * p, size / p"),
    Mutation("ring-model", "each round costs a latency", "(latency + chunk", "(0 + chunk"),
    Mutation("ring-model", "the bandwidth term", "+ chunk / bandwidth", "+ size / bandwidth"),
    Mutation("ring-model", "a tree's rounds", "ceil(log2(800))", "log2(800)"),
    Mutation(
        "wire",
        "reduce_scatter costs a full all-reduce",
        "check(1.50, dist.reduce_scatter_tensor",
        "check(0.75, dist.reduce_scatter_tensor",
    ),
    Mutation("wire", "all_reduce sends 1.5 S", "1.50, dist.all_reduce,", "2, dist.all_reduce,"),
    Mutation("wire", "all_to_all is direct", "0.75, dist.all_to_all", "1.50, dist.all_to_all"),
    Mutation("wire", "all_gather as the ring", "0.75, dist.all_gather", "1.50, dist.all_gather"),
    Mutation("wire", "broadcast, on average", "0.75, dist.broadcast", "1.00, dist.broadcast"),
    Mutation(
        "identity",
        "the halves make the whole",
        "all_gather_into_tensor(again, part)",
        "all_gather_into_tensor(again, x[:2])",
    ),
    Mutation("all-to-all-ring", "(p-1)/2 S, not (p-1)/p S", "x.nbytes // 2", "x.nbytes // p"),
    Mutation("all-to-all-ring", "the rest goes on", "inbox[1:].clone()", "inbox[:-1].clone()"),
    Mutation(
        "all-to-all-splits",
        "chunks may differ",
        "give = list(range(world))",
        "give = [1] * world",
    ),
    Mutation("ops-ignored", "every op is a sum", "part == 3", "part == right"),
    Mutation("ops-ignored", "all_reduce averages", '("AVG", 1.5)', '("AVG", 3)'),
    Mutation("ops-ignored", "all_reduce knows MAX", '("MAX", 2)', '("MAX", 3)'),
    Mutation("async-wait", "read too early", "async_op=True", "async_op=False"),
    Mutation("async-wait", "wait finishes it", "x.item() == 1\n", "x.item() == 3\n"),
    Mutation("async", "not a torch.futures.Future", "assert not isinstance", "assert isinstance"),
    Mutation("async", "then chains", "done.value()[0] / 2", "done.value()[0]"),
    Mutation("objects", "an object is two collectives", "config, 0) == 2", "config, 0) == 1"),
    Mutation("objects", "gathering, too", '{"rank": rank}) == 2', '{"rank": rank}) == 1'),
    Mutation(
        "monitored",
        "the missing rank is named",
        "missing = dist.get_rank(), 2",
        "missing = dist.get_rank(), 1",
    ),
    Mutation("monitored", "a barrier names nobody", '"rank" not in', '"rank" in'),
    Mutation("monitored", "the others point to rank 0", '"rank 0 logs" if', '"rank 2" if'),
    # 26.5
    Mutation("mean-gradient", "the mean is the full gradient", "average /= p", "average /= 2"),
    Mutation("mean-gradient", "equal shards", "batch.chunk(p)[rank]", "batch[rank:]"),
    Mutation("mean-gradient", "no rank's own is right", "average = mine.clone()", "average = mine"),
    Mutation("sum-loss", "elements, not samples", "total / (32 * 3)", "total / 32"),
    Mutation("sum-loss", "not the world size", "total / (32 * 3)", "total / p"),
    Mutation("token-mean", "the global count", "dist.all_reduce(count)", "pass"),
    Mutation("token-mean", "unequal shards are needed", "[10, 3, 1, 6]", "[5, 5, 5, 5]"),
    Mutation("token-mean", "p over N, as the average divides by p", "* p / count", "/ count"),
    Mutation("empty-mean", "no token, no mean", "else -100", "else 2"),
    Mutation("naive-ddp", "the broadcast", "dist.broadcast(param.data, src=0)", "pass"),
    Mutation("naive-ddp", "the averaging", "dist.all_reduce(param.grad)", "pass"),
    # 26.6
    Mutation("ddp-invariant", "backward averages", "== 2.5", "== rank + 1"),
    Mutation("ddp-invariant", "seeds differ", "start = model", "start = 1.0  # model"),
    Mutation("ddp-invariant", "the wrap broadcasts", "DDP(model)", "DDP(model, init_sync=False)"),
    Mutation("construct", "by position, not by name", '("ab", "ba")', '("ab", "ab")'),
    Mutation("construct", "the number is compared", "range(1 + rank)", "range(1)"),
    Mutation("construct", "the shapes are compared", "nn.Linear(1, 1 + rank)", "nn.Linear(1, 1)"),
    Mutation("buffers", "the next forward broadcasts", "ddp(torch.ones", "ddp.module(torch.ones"),
    Mutation(
        "buffers", "False leaves the buffers", "broadcast_buffers=flag)", "broadcast_buffers=True)"
    ),
    Mutation(
        "buffers-when",
        "not after a no_grad forward",
        '"no_grad": torch.no_grad',
        '"no_grad": torch.enable_grad',
    ),
    Mutation(
        "buffers-when",
        "not after a forward inside no_sync",
        '"no_sync": ddp.no_sync',
        '"no_sync": torch.enable_grad',
    ),
    Mutation("buckets", "one bucket at first", "([16], [8, 8], [8, 8])", "([8, 8], [8, 8])"),
    Mutation("buckets", "a bucket closes past its cap", "bucket_cap_mb=5", "bucket_cap_mb=4"),
    Mutation(
        "rebuilt-order", "the observed order", 'net["a"](net["b"](x))', 'net["b"](net["a"](x))'
    ),
    Mutation("first-bucket", "the constant is 1 MiB", "== 2**20", "== 25 * 2**20"),
    Mutation("first-bucket", "25 spelt out", "bucket_cap_mb=cap", "bucket_cap_mb=None"),
    Mutation("static-graph", "one iteration later", "[1, 1, 4]", "[1, 4, 4]"),
    Mutation("static-graph", "never rebuilt", "[4, 4, 4]", "[1, 4, 4]"),
    Mutation("overlap-order", "no overlap at first", "for step in (1, 2):", "for step in (1,):"),
    Mutation("overlap-order", "overlap needs buckets", "bucket_cap_mb=1", "bucket_cap_mb=25"),
    Mutation("overlap", "overlap wins", '"overlapped", "flat",', '"flat", "overlapped",'),
    Mutation("overlap", "on this link buckets pay", "alpha=0.01", "alpha=0.05"),
    Mutation("overlap-events", "the order that ran", "overlap=True", "overlap=False"),
    Mutation("bucket-sizes", "the middle wins", "seconds.get) == 2", "seconds.get) == 1"),
    Mutation(
        "unused-silent",
        "a loss must reach it",
        "torch.nn.Parameter(torch.ones(1))",
        "torch.ones(1)",
    ),
    Mutation(
        "unused-silent",
        "the gradient is local",
        "DDP(net)",
        "DDP(net, find_unused_parameters=True)",
    ),
    Mutation("unused-one-rank", "the peer blocks", "use_bias=rank == 0", "use_bias=True"),
    Mutation(
        "unused-one-rank",
        "a search mends it",
        "DDP(Net(1, 1))",
        "DDP(Net(1, 1), find_unused_parameters=True)",
    ),
    Mutation(
        "two-backwards",
        "each backward needs a forward before it",
        "other_loss = ddp(x).sum()\nloss.backward()",
        "loss.backward()\nother_loss = ddp(x).sum()",
    ),
    Mutation(
        "two-backwards",
        "one backward for both averages",
        "(ddp(x).sum() + ddp(x).sum())",
        "(ddp.module(x).sum() + ddp.module(x).sum())",
    ),
    Mutation("module-prefix", "strict=False hides it", "saved, strict=False", "saved"),
    Mutation("module-prefix", "the prefix", "saved = ddp.state", "saved = ddp.module.state"),
    Mutation("module-prefix", "the helper removes it", '(saved, "module.")', '(saved, "modul.")'),
    Mutation(
        "batchnorm",
        "BatchNorm depends on the shard",
        "nn.BatchNorm1d(4), nn",
        "nn.BatchNorm1d(4).eval(), nn",
    ),
    Mutation("syncbn", "refuses a CPU", "DDP(model)", "DDP(model[0])"),
    # 26.7
    Mutation("no-sync", "the forward decides", '"f" in w else 8', '"b" in w else 8'),
    Mutation("no-sync", "the last one communicates", 'if i < 7 and "f"', 'if i < 8 and "f"'),
    Mutation("uneven", "one batch fewer", "range(3 - rank)", "range(3)"),
    Mutation("uneven-exit", "the peer is gone", "if rank == 0:", "if rank < 2:"),
    Mutation("cross-match", "two calls are summed", "dist.all_reduce(gradient)", "pass"),
    Mutation(
        "join",
        "the divisor",
        "divide_by_initial_world_size=keep",
        "divide_by_initial_world_size=True",
    ),
    # 26.8
    Mutation(
        "sampler", "forgotten set_epoch replays", '("forgotten", False)', '("forgotten", True)'
    ),
    Mutation("sampler", "two repeats", "length=10", "length=9"),
    Mutation(
        "sampler-surprises",
        "seed plus epoch",
        "order(epoch=1) != order()",
        "order(epoch=2) != order()",
    ),
    Mutation("sampler-surprises", "the permutation is repeated", "flat[:2] != [0, 1]", "[0, 1]"),
    Mutation("exact-eval", "the sampler pads", "[6, 8] if", "[6, 7] if"),
    Mutation(
        "exact-eval",
        "a stride does not",
        "range(rank, len(correct), p)",
        "range(rank, 8 - rank, p)",
    ),
    # 26.9
    Mutation("comm-hook", "the hook divides", ".div(dist.get_world_size())", ""),
    Mutation("hook-contract", "the name is `bucket`", "state, gradients", "state, bucket"),
    Mutation(
        "powersgd",
        "compression starts when told",
        "start_powerSGD_iter = 3",
        "start_powerSGD_iter = 9",
    ),
    Mutation("powersgd", "the defaults", "    1, 1000)", "    1, 10)"),
    # 26.10 and 26.11
    Mutation("data-parallel", "no device, no replica", "== []", "== [0]"),
    Mutation(
        "rank0-only",
        "off by one",
        "if rank == 0:\n    dist.all_reduce(loss)",
        "if True:\n    dist.all_reduce(loss)",
    ),
    Mutation("stacks", "a slow rank holds the others", "time.sleep(600)", "time.sleep(0)"),
    Mutation("slow-save", "longer than the timeout", "time.sleep(1.5)", "time.sleep(0)"),
    Mutation("detail", "dtypes are compared", "x.int() if rank else x", "x"),
    Mutation("detail", "shapes are compared", "torch.ones(3 + rank)", "torch.ones(3)"),
    Mutation("detail-blind", "the order", "else (b, a)", "else (a, b)"),
    Mutation("detail-ddp", "a crash in the constructor", '"DETAIL"', '"INFO"'),
    Mutation("flight-recorder", "same id, other operation", "if rank == 0: dist", "if True: dist"),
    Mutation(
        "flight-recorder", "gloo is recorded", '"TORCH_FR_BUFFER_SIZE"', '"TORCH_BUFFER_SIZE"'
    ),
    Mutation("torchfrtrace", "it cannot start", "torchfrtrace --help", "torchrun --help"),
    Mutation(
        "comm-debug",
        "the bucket is counted",
        "ddp(x).sum().backward()",
        "ddp.module(x).sum().backward()",
    ),
    Mutation(
        "comm-debug",
        "a barrier is not counted",
        "    dist.barrier()\n",
        "    dist.all_reduce(inbox)\n",
    ),
    # 26.12
    Mutation("scaling", "it outlasts backward at 1024", "even, 1024)", "even, 2048)"),
    Mutation("scaling", "1.86 GiB", "2**30", "1e9"),
    Mutation(
        "scaling", "7 % of the compute", "t.communication, t.compute", "t.communication, t.backward"
    ),
    Mutation("memory", "16 bytes", "memory(Case())", 'memory(Case(optimizer="sgd"))'),
    # 26.13
    Mutation(
        "minimal-collectives", "identities", "broadcast(y, src=0)", "broadcast(y.add_(1), src=0)"
    ),
    Mutation("minimal-mean", "a sum needs the batch", '"sum") / 32', '"sum") / 4'),
    Mutation("minimal-mean", "a mean needs the world", '"mean") / 4', '"mean") / 2'),
    Mutation("minimal-ring", "the sum of two halves", 'ring_bytes("all_gather", p, size)', "0"),
    Mutation("minimal-sampler", "an epoch reshuffles", "part.set_epoch(1)", "pass"),
    Mutation(
        "minimal-ddp", "silence under no_sync", "with ddp.no_sync():", "with torch.enable_grad():"
    ),
    # 26.14
    Mutation("lab", "every check holds", "python $lab", "python $lab --lr 1e9"),
)
