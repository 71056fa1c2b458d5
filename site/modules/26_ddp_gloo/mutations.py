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
    Mutation("torchrun-env", "18 variables with two processes", '"2": 18', '"2": 17'),
    Mutation("torchrun-env", "17 with one", '"1": 17', '"1": 18'),
    Mutation("torchrun-env", "one thread each", '["OMP_NUM_THREADS"] == "1"', '["RANK"] == "1"'),
    Mutation(
        "torchrun-env",
        "asynchronous error handling is exported",
        'os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"]',
        'os.environ["NCCL_ASYNC_ERROR_HANDLING"]',
    ),
    Mutation(
        "torchrun-env", "the launcher has the store", 'AGENT_STORE"] == "True"', 'ID"] == "True"'
    ),
    # 26.2
    Mutation("init-refusals", "nccl needs a GPU", 'refusal("nccl")', 'refusal("gloo")'),
    Mutation("init-refusals", "device_id is refused", ', device_id=torch.device("cpu")', ""),
    Mutation("store", "get waits for the key of the other", "{1 - rank}", "{rank}"),
    Mutation("store", "libuv is the default", "wait_for_workers=False", "use_libuv=False"),
    Mutation("store-host", "rank 0 serves", "= use_agent_store", '= "True"'),
    Mutation("store-host", "or the launcher", "= use_agent_store", '= "False"'),
    Mutation("subgroups", "pairs are consecutive", "group_size=2", "group_size=4"),
    Mutation("subgroups", "new_group sorts", "[-1, 0, -1, 1]", "[-1, 1, -1, 0]"),
    Mutation(
        "members-only", "the next new_group hangs", "if rank < 2:\n    pair", "if True:\n    pair"
    ),
    Mutation(
        "local-sync",
        "the members need the option",
        "pair = dist.new_group([0, 1], use_local_synchronization=True)",
        "pair = dist.new_group([0, 1])",
    ),
    Mutation("local-sync", "None outside", "again is None", "again is not None"),
    Mutation(
        "group-timeout",
        "a new group has its own",
        "dist.new_group()",
        "dist.new_group(timeout=timedelta(seconds=7))",
    ),
    Mutation("group-timeout", "10 minutes for NCCL", "minutes=10", "minutes=30"),
    Mutation(
        "group-timeout", "30 minutes otherwise", "timedelta(minutes=30)", "timedelta(minutes=10)"
    ),
    Mutation("late-node", "the launcher waits for node 1", "--nnodes=2", "--nnodes=1"),
    Mutation(
        "leaving", "a barrier in finally hides it", "finally:\n", "finally:\n    dist.barrier()\n"
    ),
    Mutation("leaving", "rank 1 raises", "raise ValueError", "print"),
    Mutation("barrier-hides", "without it the error is seen", "    dist.barrier()", "    pass"),
    Mutation(
        "kept-alive",
        "an import before the group",
        "import weakref\n",
        "import weakref\nimport torch.distributed.nn.functional\n",
    ),
    Mutation(
        "kept-alive",
        "an optimizer before the group",
        "assert outlives_its_end(optimizer)",
        "optimizer()\nassert outlives_its_end(optimizer)",
    ),
    Mutation("kept-alive", "a model in a variable", "    return DDP(", "    DDP("),
    Mutation("kept-alive", "a model that is gone", "    model()  ", "    return model()  "),
    Mutation(
        "destroy-twice", "a second destroy raises", "    dist.destroy_process_group()", "    pass"
    ),
    Mutation("destroy-twice", "without a text", 'str(error) == ""', 'str(error) != ""'),
    # 26.3
    Mutation("elastic-restart", "restarts are asked for", "--max_restarts=1", "--max_restarts=0"),
    Mutation(
        "elastic-restart",
        "the weights are loaded",
        "cp content/courses/pytorch/code/elastic.py elastic.py",
        "grep -v net.load_state content/courses/pytorch/code/elastic.py > elastic.py",
    ),
    Mutation(
        "elastic-restart",
        "the momentum is loaded",
        "cp content/courses/pytorch/code/elastic.py elastic.py",
        "grep -v optimizer.load_state content/courses/pytorch/code/elastic.py > elastic.py",
    ),
    Mutation(
        "elastic-restart",
        "nobody begins at 0 over a checkpoint",
        "cp content/courses/pytorch/code/elastic.py elastic.py",
        "grep -v 'first = saved' content/courses/pytorch/code/elastic.py > elastic.py",
    ),
    Mutation("elastic-restart", "rank 0 has the store", '== "False"', '== "True"'),
    Mutation(
        "rate-anew", "loading brings the old rate", "optimizer.load_state_dict(saved)", "pass"
    ),
    Mutation("rate-anew", "the world decides", "* dist.get_world_size()", "* 4"),
    Mutation("exit-status", "the status is 1", "[ $status = 1 ]", "[ $status = 7 ]"),
    Mutation("exit-status", "@record names the error", "@record\n", "\n"),
    Mutation(
        "spawn-local",
        "a function of the module is found",
        "    mp.spawn(train",
        "    mp.spawn(print",
    ),
    Mutation(
        "spawn-guard",
        "a guard cures it",
        "mp.spawn(train",
        'if __name__ == "__main__":\n    mp.spawn(train',
    ),
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
    Mutation("mean-gradient", "the mean is the full gradient", "mine / p", "mine / 2"),
    Mutation(
        "mean-gradient",
        "equal shards",
        "x.chunk(p)[rank] @ w, y.chunk(p)[rank]",
        "x[rank:] @ w, y[rank:]",
    ),
    Mutation("sum-loss", "elements, not samples", "total / (32 * 3)", "total / 32"),
    Mutation("sum-loss", "not the world size", "total / (32 * 3)", "total / p"),
    Mutation("token-mean", "the global count", "dist.all_reduce(count)", "pass"),
    Mutation("token-mean", "unequal shards are needed", "[10, 3, 1, 6]", "[5, 5, 5, 5]"),
    Mutation("empty-mean", "no token, no mean", "-100 if", "1 if"),
    Mutation("naive-ddp", "the broadcast", "dist.broadcast(param.data, src=0)", "pass"),
    Mutation("naive-ddp", "the averaging", "dist.all_reduce(param.grad), ", ""),
    # 26.6
    Mutation("ddp-invariant", "backward averages", "== 2.5", "== dist.get_rank() + 1"),
    Mutation("ddp-invariant", "seeds differ", "start = model", "start = 1.0  # model"),
    Mutation("buffers", "every forward broadcasts", "ddp.eval()(", "ddp.module.eval()("),
    Mutation(
        "buffers", "False leaves the buffers", "broadcast_buffers=flag)", "broadcast_buffers=True)"
    ),
    Mutation(
        "buckets", "one bucket, then two", "[[16], [8, 8], [8, 8]]", "[[8, 8], [8, 8], [8, 8]]"
    ),
    Mutation("buckets", "a bucket closes past its cap", "bucket_cap_mb=5", "bucket_cap_mb=4"),
    Mutation(
        "rebuilt-order", "the observed order", 'net["a"](net["b"](x))', 'net["b"](net["a"](x))'
    ),
    Mutation("first-bucket", "the constant is 1 MiB", "== 2**20", "== 25 * 2**20"),
    Mutation("first-bucket", "25 spelt out", "bucket_cap_mb=cap", "bucket_cap_mb=None"),
    Mutation("static-graph", "one iteration later", "[1, 1, 4] if", "[1, 4, 4] if"),
    Mutation("static-graph", "never rebuilt", "else [4, 4, 4]", "else [1, 4, 4]"),
    Mutation("overlap-order", "no overlap at first", "for step in (1, 2):", "for step in (1,):"),
    Mutation("overlap", "overlap wins", '"overlapped", "flat",', '"flat", "overlapped",'),
    Mutation("overlap", "on this link buckets pay", "alpha=0.01", "alpha=0.05"),
    Mutation("overlap-events", "the order that ran", "overlap=True", "overlap=False"),
    Mutation("bucket-sizes", "the middle wins", "took.get) == 2", "took.get) == 1"),
    Mutation("unused-silent", "the first step is silent", "net[0](x)", "net[0](x) + 0 * net[1](x)"),
    Mutation(
        "unused-silent",
        "the gradient is local",
        "DDP(net)",
        "DDP(net, find_unused_parameters=True)",
    ),
    Mutation(
        "batchnorm",
        "BatchNorm depends on the shard",
        "nn.BatchNorm1d(4), nn",
        "nn.BatchNorm1d(4).eval(), nn",
    ),
    Mutation("syncbn", "refuses a CPU", "DDP(model)", "DDP(model[0])"),
    # 26.7
    Mutation("no-sync", "each loss is divided", "mean() / divisor)", "mean() / 1)"),
    Mutation("no-sync", "undivided it is 4.0 times too large", "4 / divisor)\n", "1.0)\n"),
    Mutation("no-sync", "only the last communicates", "if i < silent", "if i < 0"),
    Mutation(
        "no-sync-forward",
        "the forward decides",
        '1 if "forward" in inside',
        '1 if "backward" in inside',
    ),
    Mutation(
        "no-sync-forward",
        "the last one brings the average",
        "    ddp(x).sum().backward()",
        "    ddp.module(x).sum().backward()",
    ),
    Mutation("clip", "clipped early, it points elsewhere", "if early:", "if True:"),
    Mutation("clip", "the average is clipped", "ddp(second)", "ddp.module(second)"),
    Mutation(
        "autocast",
        "float32 parameters send float32",
        "4, 2, dtype=dtype",
        "4, 2, dtype=torch.bfloat16",
    ),
    Mutation("autocast", "the output is bf16", '("cpu", ', '("cpu", enabled=False, '),
    Mutation("scaler", "one rank's infinity is every rank's", "scale(ddp(", "scale(ddp.module("),
    Mutation("scaler", "an infinity skips the step", "== 0 else", ">= 0 else"),
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
    Mutation("sampler", "set_epoch shuffles anew", "set_epoch(1)", "set_epoch(0)"),
    Mutation("sampler", "two repeats", "range(10), 3", "range(9), 3"),
    Mutation(
        "sampler-surprises",
        "seed plus epoch",
        "order(epoch=1) != order()",
        "order(epoch=2) != order()",
    ),
    Mutation("sampler-surprises", "the permutation is repeated", "permutation[:2]", "[0, 1]"),
    Mutation(
        "sampler-surprises", "every rank strides", "for shard in order()]", "for shard in [0]]"
    ),
    Mutation("exact-eval", "the sampler pads", "[6, 8] if", "[6, 7] if"),
    Mutation(
        "exact-eval",
        "a stride does not",
        "range(rank, len(samples), world)",
        "range(rank, 8 - rank, world)",
    ),
    Mutation("eval-broadcasts", "only the first without gradients", "no_grad()", "enable_grad()"),
    Mutation("eval-broadcasts", "a bare module broadcasts nothing", "ddp.module)", "ddp)"),
    Mutation("eval-broadcasts", "buffers are broadcast", "(1))", "(1, track_running_stats=False))"),
    Mutation(
        "eval-blocks", "the buffers' broadcast blocks", "(1))", "(1), broadcast_buffers=False)"
    ),
    Mutation("eval-blocks", "the bare module does not", "samples(ddp.module)", "samples(ddp)"),
    Mutation("eval-buffers", "statistics differ by rank", " + 10 * dist.get_rank()", ""),
    Mutation("eval-buffers", "a broadcast makes them one", "dist.broadcast(buffer, src=0)", "pass"),
    Mutation("plateau", "its own loss forks", 'if reads == "averaged":', "if True:"),
    Mutation("plateau", "an averaged one does not", 'if reads == "averaged":', "if False:"),
    Mutation("early-stop", "an agreed decision is one", "if agree:", "if False:"),
    Mutation("early-stop", "own decisions differ", "[1.0, 1.5, 0.7, 0.4]", "[2.0, 1.0, 0.5, 0.6]"),
    # 26.9
    Mutation("comm-hook", "the hook divides", ".div(world)", ""),
    Mutation("hook-contract", "the name is `bucket`", "gradients):", "bucket):"),
    Mutation("hook-contract", "once only", "fine, second", "fine, "),
    Mutation("compress-hooks", "half the bytes", 'f"{name}_hook"', '"allreduce_hook"'),
    Mutation(
        "powersgd",
        "compression starts when told",
        "start_powerSGD_iter = 3",
        "start_powerSGD_iter = 9",
    ),
    Mutation("powersgd", "the defaults", "== 1000", "== 10"),
    # 26.10 and 26.11
    Mutation("data-parallel", "no device, no replica", "== []", "== [0]"),
    Mutation(
        "rank0-only",
        "off by one",
        "if rank == 0:\n        dist.all_reduce(loss)",
        "if True:\n        dist.all_reduce(loss)",
    ),
    Mutation(
        "rank0-only",
        "the counts tell",
        "    dist.all_reduce(gradient)  ",
        "    dist.all_reduce(gradient)\n    dist.all_reduce(loss)  ",
    ),
    Mutation("stacks", "a slow rank holds the others", "time.sleep(600)", "time.sleep(0)"),
    Mutation("all-wait", "one left the call out", "if rank != 1:", "if True:"),
    Mutation("all-wait", "all wait, the guilty too", '"barrier" if', '"its own code" if'),
    Mutation("slow-save", "longer than the timeout", "time.sleep(1.5)", "time.sleep(0)"),
    Mutation("detail", "dtypes are compared", "x.int() if rank else x", "x"),
    Mutation("detail", "shapes are compared", "torch.ones(3 + rank)", "torch.ones(3)"),
    Mutation("detail", "kinds are compared", "dist.broadcast, x, 0", "dist.all_reduce, x"),
    Mutation("detail-blind", "the order", "else (b, a)", "else (a, b)"),
    Mutation("detail-blind", "no word of the order", "== 11", "== 2"),
    Mutation("detail-src", "another source times out", "src=dist.get_rank()", "src=0"),
    Mutation("detail-src", "nobody is named", '"rank" not in', '"rank" in'),
    Mutation("detail-waits", "the call is held back", '"DETAIL"', '"INFO"'),
    Mutation("detail-ddp", "a crash in the constructor", '"DETAIL"', '"INFO"'),
    Mutation("flight-recorder", "same id, other operation", "if rank == 0:", "if True:"),
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
    Mutation("scaling", "the law is what the model says", "7 / 8 *", "8 / 8 *"),
    Mutation("scaling", "at 1750 tokens they are equal", "2048, 1750,", "2048, 1751,"),
    Mutation("scaling", "it outlasts backward at 1024", "1750, 1024)", "1750, 2048)"),
    Mutation("scaling", "1.86 GiB", "2**30", "1e9"),
    Mutation(
        "scaling",
        "7 % of the compute",
        "t.communication / t.compute",
        "t.communication / t.backward",
    ),
    Mutation("scaling", "float32 gradients double it", '"float32"', '"mixed"'),
    Mutation(
        "autocast-gradients",
        "gradients have the parameters' dtype",
        "Linear(250, 4, bias=False).to(parameters)",
        "Linear(250, 4, bias=False)",
    ),
    Mutation(
        "autocast-gradients", "autocast is on", '"cpu", torch', '"cpu", enabled=False, dtype=torch'
    ),
    Mutation("strong-weak", "a fixed batch stops", "16384 / ranks", "16384"),
    Mutation("strong-weak", "a fixed share goes on", "(ranks, 8192)", "(ranks, 8192 / ranks)"),
    Mutation("memory", "16 bytes", "Case(precision=precision)", 'Case(optimizer="sgd")'),
    Mutation("memory", "a shard is an eighth", "per_rank(items)[3]", "per_rank(items)[2]"),
    # 26.13
    Mutation(
        "minimal-collectives", "identities", "broadcast(received,", "broadcast(received.add_(1),"
    ),
    Mutation("minimal-mean", "a sum needs the batch", "total / 32", "total / 4"),
    Mutation("minimal-mean", "a mean needs the world", '"mean") / 4', '"mean") / 2'),
    Mutation("minimal-ring", "the sum of two halves", "all_gather += chunk", "all_gather += 0"),
    Mutation("minimal-sampler", "an epoch reshuffles", "sampler.set_epoch(1)", "pass"),
    Mutation(
        "minimal-ddp", "silence under no_sync", "with ddp.no_sync():", "with torch.enable_grad():"
    ),
    # 26.14
    Mutation("lab", "every check holds", "python $lab", "python $lab --lr 1e9"),
    Mutation("lab", "the limit of a way", "SAME = 1e-12", "SAME = 1e-6"),
    Mutation("lab", "the limit of the control", "DIFFERENT = 1e-3", "DIFFERENT = 1e-6"),
    Mutation("lab", "the timeout", "GROUP_TIMEOUT = 60", "GROUP_TIMEOUT = 1800"),
    # 26.15
    Mutation("exercise-factor", "the share of the samples", "len(mine) / 10", "len(mine) / 12"),
)
