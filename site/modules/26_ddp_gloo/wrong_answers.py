"""Typical wrong answers to the exercises, as edits of the solutions, and what each must be told.

An answer "fails with its own message" if the verdict is of this kind and says these words.
"""

from modules.parts import WrongAnswer, slip

IMPORT = "import torch.distributed as dist\n"
RECV = "        dist.recv(tensor, src)\n"
RANK = "    rank = dist.get_rank()\n"


def _hostile(name: str, statement: str, kind: str, says: str):
    """Return a wrong answer to task 1 that does something to the grader first."""
    imports = f"import os, subprocess, sys\n{IMPORT}"
    edits = ((IMPORT, imports), (RANK, f"{RANK}    {statement}\n"))
    return WrongAnswer("1", name, edits, kind, says)


BROADCAST = (
    slip(
        "1",
        "calls the library",
        RANK,
        f"    return dist.broadcast(tensor, src)\n{RANK}",
        "library",
        "calls dist.broadcast, which this task replaces",
    ),
    slip(
        "1",
        "the root is always rank 0",
        RANK,
        f"    src = 0\n{RANK}",
        "value",
        "These are rank 0's own values, but src=1",
        3,
    ),
    slip("1", "receives into a new tensor", RECV, "        tensor = torch.empty_like(tensor)\n"
         + RECV, "value", "rebinding its name changes nothing"),
    slip(
        "1",
        "sends to itself",
        " if peer != src]",
        "]",
        "raised",
        "A rank cannot send to itself",
    ),
    slip(
        "1",
        "nobody sends",
        "    works = [",
        "    return\n    works = [",
        "hang",
        "Rank 0 made fewer calls than the others",
    ),
    WrongAnswer(
        "1",
        "everybody sends to everybody",
        (
            (
                "    if rank != src:\n        dist.recv(tensor, src)\n        return\n",
                "    others = [r for r in range(dist.get_world_size()) if r != rank]\n"
                "    works = [dist.isend(tensor.clone(), r) for r in others]\n"
                "    for r in others:\n"
                "        buffer = torch.empty_like(tensor)\n"
                "        dist.recv(buffer, r)\n"
                "        tensor.copy_(buffer if r == src else tensor)\n"
                "    [w.wait() for w in works]\n"
                "    return\n",
            ),
        ),
        "traffic",
        "p - 1 messages in all",
    ),
    slip(
        "1",
        "does not wait for isend",
        "        work.wait()",
        "        pass",
        "unawaited",
        "was started and never awaited",
    ),
    slip("1", "adds instead of sending", RECV, "        buffer = tensor.clone()\n"
         "        dist.recv(buffer, src)\n        tensor += buffer\n", "value",
         "Follow one message"),
    slip("1", "sends from every rank", RECV, "        dist.send(tensor, src)\n", "hang",
         "the two lists must mirror each other"),
)  # fmt: skip

HOSTILE = (
    _hostile("loops for ever", "while True: pass", "endless", "it computes"),
    _hostile("sleeps for ever", "__import__('time').sleep(999)", "endless", "it computes"),
    _hostile("calls os._exit", "os._exit(0)", "exit", "left with status 0"),
    _hostile("calls sys.exit", "sys.exit(0)", "raised", "SystemExit"),
    _hostile("prints without end", "while True: print('x' * 999)", "flood", "more than 4 MiB"),
    _hostile("forks", "os.fork()", "process", "starts a process (os.fork)"),
    _hostile(
        "starts a program", "subprocess.Popen(['sleep', '60'])", "process", "starts a process"
    ),
    _hostile(
        "closes every descriptor", "os.closerange(0, 256)", "signal|exit", "before your code|signal"
    ),
    _hostile("crashes", "__import__('ctypes').string_at(0)", "signal", "was ended by signal 11"),
    _hostile("kills itself", "os.kill(os.getpid(), 9)", "signal", "was ended by signal 9"),
    _hostile("destroys the process group", "dist.destroy_process_group()", "raised",
             "an answer does not destroy it"),
    _hostile("starts a second process group", "dist.init_process_group('gloo')", "raised",
             "The process group is there already"),
    _hostile("recurses", "broadcast(tensor, src)", "raised", "RecursionError"),
    _hostile("replaces stdout", "sys.stdout = None; 1 / 0", "raised", "ZeroDivisionError"),
    WrongAnswer(
        "1",
        "catches everything",
        ((RECV, "        try:\n            dist.recv(tensor, rank)\n        except:\n"
          "            pass\n"),),
        "swallowed",
        "catches everything and may hide the reason",
    ),
    slip("1", "is no Python", "    rank = ", "    rank == = ", "syntax", "invalid syntax"),
    slip("1", "has lost its function", "def broadcast", "def broadcst", "missing",
         "the file defines no `broadcast`"),
    slip("1", "takes other arguments", "tensor: torch.Tensor, src: int", "tensor", "signature",
         "broadcast() takes 1 positional argument"),
    slip("1", "goes round the recorder", RECV, "        torch.ops.c10d.recv_\n", "library",
         "behind torch.distributed's back"),
)  # fmt: skip

SENDS = "    work = dist.isend(outgoing, (rank + 1) % world)\n"

RING = (
    slip("2", "calls the library", "    chunks =", "    return dist.all_reduce(tensor)\n"
         "    chunks =", "library", "Write it from: dist.batch_isend_irecv, dist.irecv"),
    WrongAnswer(
        "2",
        "sends whole tensors",
        (
            (
                "    for step in range(world - 1):\n"
                "        mine = chunks[(rank - step - 1) % world]\n"
                "        mine += exchange(chunks[(rank - step) % world], mine)\n",
                "    passing = tensor.clone()\n"
                "    for step in range(world - 1):\n"
                "        passing = exchange(passing, tensor)\n"
                "        tensor += passing\n"
                "    return\n",
            ),
        ),
        "traffic",
        "One message carries the whole tensor",
        3,
    ),
    WrongAnswer(
        "2",
        "adds up on rank 0",
        (
            (
                "    chunks =",
                "    for peer in range(1, world):\n"
                "        if rank == 0:\n"
                "            buffer = torch.empty_like(tensor)\n"
                "            dist.recv(buffer, peer)\n"
                "            tensor += buffer\n"
                "        elif rank == peer:\n"
                "            dist.send(tensor, 0)\n"
                "    for peer in range(1, world):\n"
                "        if rank == 0:\n"
                "            dist.send(tensor, peer)\n"
                "        elif rank == peer:\n"
                "            dist.recv(tensor, 0)\n"
                "    return\n"
                "    chunks =",
            ),
        ),
        "rule",
        "In a ring a rank knows two others",
        3,
    ),
    WrongAnswer(
        "2",
        "begins with a blocking send",
        ((SENDS, "    dist.send(outgoing, (rank + 1) % world)\n"), ("    work.wait()\n", "")),
        "hang",
        "begin the send with isend",
    ),
    slip("2", "drops the rest", "tensor.view(-1).tensor_split(world)",
         "tensor.view(-1)[: tensor.numel() // world * world].tensor_split(world)", "value",
         "which chunk has the rest?"),
    slip("2", "leaves the mean", "    rank, world = dist.get_rank(), dist.get_world_size()\n"
         "    chunks =", "    rank, world = dist.get_rank(), dist.get_world_size()\n"
         "    tensor /= world\n    chunks =", "value", "This is the mean"),
    slip("2", "cuts copies", "    chunks = tensor.view(-1)", "    chunks = tensor.clone().view(-1)",
         "value", "are your chunks views of it, or copies?"),
    slip("2", "forgets the all-gather", "        mine.copy_(exchange(chunks[(rank + 1 - step)"
         " % world], mine))", "        pass", "value",
         "is each partial sum passed on exactly once"),
    slip("2", "rounds on the way", "mine.copy_(exchange(chunks[(rank + 1 - step) % world], mine))",
         "mine.copy_(exchange(chunks[(rank + 1 - step) % world], mine) * (1 + 1e-6 * rank))",
         "replicas", "Each chunk's sum must be finished on one rank"),
    slip("2", "keeps its Works for later", "    work.wait()\n",
         "    globals().setdefault('kept', []).append(work)\n", "unawaited", "never awaited"),
    slip("2", "does not wait for isend", "    work.wait()\n", "", "unawaited", "never awaited"),
    slip("2", "sends to the left", SENDS, "    work = dist.isend(outgoing, (rank - 1) % world)\n",
         "hang", "In a ring every rank has something to send", 3),
)  # fmt: skip

SHARE = "            share.copy_(parameter.grad).mul_(num_tokens / total.item())\n"
TOTAL = "    dist.all_reduce(total)\n"

OWN_ORDER = (
    "{indent}parts = [torch.empty_like({tensor}) for _ in range(dist.get_world_size())]\n"
    "{indent}dist.all_gather(parts, {tensor})\n"
    "{indent}{tensor} = sum(parts[dist.get_rank() :] + parts[: dist.get_rank()])\n"
)

TOKENS = (
    slip("3", "takes the plain mean", "num_tokens / total.item()", "1 / dist.get_world_size()",
         "value", "gives a rank with 3 tokens the weight of one with 10"),
    slip("3", "adds up the means", ".mul_(num_tokens / total.item())", "", "value",
         "nothing was weighed"),
    slip("3", "divides by the ranks", "num_tokens / total.item()",
         "num_tokens / dist.get_world_size()", "value", "divide by the number of all tokens"),
    slip("3", "forgets to divide", "num_tokens / total.item()", "num_tokens", "value",
         "This is the sum over all tokens"),
    slip("3", "multiplies nan by 0", "if num_tokens and parameter", "if parameter", "value",
         "nan times 0 is nan too", 3),
    slip("3", "skips missing gradients", "        if not parameter.requires_grad:",
         "        if parameter.grad is None:", "hang",
         "Does the number of your calls depend on", 3),
    slip("3", "gives frozen parameters zeros", "        if not parameter.requires_grad:\n"
         "            continue\n", "", "rule", "leave its grad None"),
    slip("3", "adds up in its own order", "        dist.all_reduce(share)\n", OWN_ORDER.format(
         indent=" " * 8, tensor="share"), "replicas", "are rounded differently", 3),
    slip("3", "keeps the total to itself", TOTAL, "", "value", "nothing was weighed"),
)  # fmt: skip

SEND_ALL = "        for tensor in (*module.parameters(), *module.buffers()):\n"
FILL = "                parameter.grad = torch.zeros_like(parameter)\n"

NAIVE = (
    slip("4", "does not broadcast", "            dist.broadcast(tensor.data, src=0)",
         "            pass", "value", "This rank has kept its own parameter"),
    slip("4", "forgets the buffers", SEND_ALL, "        for tensor in module.parameters():\n",
         "value", "This rank has kept its own buffer"),
    slip("4", "leaves the sum", "            parameter.grad.div_(dist.get_world_size())\n", "",
         "value", "This is the sum over the ranks"),
    slip("4", "skips missing gradients", FILL, "                continue\n", "hang|signal",
         "Does this rank skip a parameter whose gradient is None?"),
    slip("4", "is DistributedDataParallel", "        self.module = module\n",
         "        self.module = nn.parallel.DistributedDataParallel(module)\n", "library",
         "it is what this task rebuilds"),
    WrongAnswer("4", "takes frozen ones along", (
        (" if p.requires_grad]", "]"),
        ("            if count == 0:\n                continue\n", ""),
    ), "rule", "A frozen parameter takes no part"),
    WrongAnswer("4", "trips over None", ((f"            if parameter.grad is None:\n{FILL}", ""),),
                "raised", "Ranks may differ in which ones those are"),
    slip("4", "adds up in its own order", "            dist.all_reduce(parameter.grad)\n",
         OWN_ORDER.format(indent=" " * 12, tensor="parameter.grad"), "replicas",
         "are rounded differently", 3),
    slip("4", "averages a copy", "            dist.all_reduce(parameter.grad)\n",
         "            dist.all_reduce(parameter.grad.clone())\n", "value", "written to a copy"),
    slip("4", "divides by the users", "div_(dist.get_world_size())", "div_(count)", "value",
         "not the number of ranks that used it"),
    slip("4", "changes leaves under autograd", "dist.broadcast(tensor.data, src=0)",
         "tensor.mul_(1)", "raised", "Autograd records what you do to parameters"),
)  # fmt: skip

REDUCE = "            dist.all_reduce(flat)\n"
PIECES = "            pieces = flat.split([p.numel() for p in parameters])\n"

FLAT = (
    slip("5", "one call per parameter", REDUCE,
         "            for piece in flat.split([p.numel() for p in parameters]):\n"
         "                dist.all_reduce(piece)\n", "traffic", "pack those of one dtype together"),
    slip("5", "one bucket for all dtypes", "setdefault(parameter.dtype, [])",
         "setdefault(torch.float64, [])", "raised", "there must be one per dtype"),
    slip("5", "does not copy back", "                parameter.grad = piece",
         "                unused = piece", "value", "the average was written to a copy"),
    WrongAnswer("5", "unpacks backwards", (
        ("zip(parameters, pieces, strict=True):", "zip(parameters[::-1], pieces, strict=True):"),
    ), "raised", "The pieces are cut in another order"),
    slip("5", "leaves out what is missing", "            flat = torch.cat([gradient_of(p)",
         "            parameters = [p for p in parameters if p.grad is not None]\n"
         "            flat = torch.cat([gradient_of(p)", "hang|signal",
         "equally long on every rank"),
    slip("5", "zeros for what nobody used", " if count[parameter] else None", "", "rule",
         "No rank used this parameter, so its grad stays None"),
    slip("5", "leaves the sum", "            flat.div_(dist.get_world_size())\n", "", "value",
         "This is the sum over the ranks"),
    slip("5", "waits for everybody", REDUCE, "            dist.barrier()\n" + REDUCE, "traffic",
         "one for the flags is enough"),
    slip("5", "sends everything twice", REDUCE, REDUCE.replace("flat", "flat.repeat(2)") + REDUCE,
         "traffic", "pack those of one dtype together"),
    slip("5", "pads the flat tensor", "for p in parameters])\n            dist.all_reduce(flat)\n",
         "for p in parameters])\n            flat = torch.cat([flat, flat])\n"
         "            dist.all_reduce(flat)\n            flat = flat.chunk(2)[0]\n", "traffic",
         "Every gradient is to be moved once"),
)  # fmt: skip

LAUNCH = "        self.flying.append((flat, dist.all_reduce(flat, async_op=True)))\n"
HOOK = "            parameter.register_post_accumulate_grad_hook(self._ready)\n"

OVERLAPPED = (
    slip("6", "launches at the end", HOOK, "            pass\n", "rule",
         "Do you launch from a hook, or only in finish_gradients?"),
    WrongAnswer("6", "blocks in the hook", (
        (LAUNCH, "        dist.all_reduce(flat)\n        self.flying.append((flat, None))\n"),
        ("            work.wait()\n", ""),
    ), "rule", "the next layer's gradient can be computed meanwhile"),
    slip("6", "one bucket per parameter", "            room = bucket_bytes\n",
         "            room = 0\n", "traffic", "put neighbours of one dtype together"),
    WrongAnswer("6", "launches as they fill", (
        ("        # In line, never as they fill: "
         "the order of calls must be the same on every rank.\n"
         "        while len(self.flying) < len(self.buckets) and not self.missing[len(self.flying)]"
         ":\n            self._launch()\n",
         "        if not self.missing[self.bucket_of[parameter]]:\n"
         "            self._launch(self.bucket_of[parameter])\n"),
        ("    def _launch(self) -> None:\n        bucket = self.buckets[len(self.flying)]\n",
         "    def _launch(self, i) -> None:\n        bucket = self.buckets[i]\n"
         "        self.started.add(i)\n"),
        ("        self.flying: list[tuple[torch.Tensor, dist.Work]] = []\n",
         "        self.flying = []\n        self.started = set()\n"),
        ("        while len(self.flying) < len(self.buckets):\n            self._launch()\n",
         "        for i in range(len(self.buckets)):\n            if i not in self.started:\n"
         "                self._launch(i)\n"),
    ), "hang|signal", "Ranks start their buckets in different orders"),
    slip("6", "pads its buckets", LAUNCH, "        twice = torch.cat([flat, flat])\n"
         "        work = dist.all_reduce(twice, async_op=True)\n"
         "        self.flying.append((twice[: len(flat)], work))\n", "traffic",
         "Is a bucket launched twice?"),
    slip("6", "does not wait", "            work.wait()\n", "", "unawaited", "never awaited"),
    slip("6", "never launches the unfilled",
         "        while len(self.flying) < len(self.buckets):\n            self._launch()\n",
         "        self.buckets = self.buckets[: len(self.flying)]\n", "hang|signal",
         "also those that never filled"),
    slip("6", "fills from the first layer on", "plan(trainable[::-1], bucket_bytes)",
         "plan(trainable, bucket_bytes)", "rule", "Do the buckets begin with the last layer"),
    slip("6", "leaves the sum", "            flat.div_(dist.get_world_size())\n", "", "value",
         "This is the sum over the ranks"),
)  # fmt: skip

WITH = "        with nullcontext() if last else ddp.no_sync():\n"

ACCUMULATION = (
    slip("7", "synchronises always", WITH, "        with nullcontext():\n", "rule",
         "unless it runs under `with ddp.no_sync():`"),
    WrongAnswer("7", "the forward is outside", (
        (WITH + "            loss = loss_fn(ddp(x), y) * (len(x) / total)\n",
         "        loss = loss_fn(ddp(x), y) * (len(x) / total)\n" + WITH),
    ), "rule", "put the forward inside"),
    slip("7", "never synchronises", "nullcontext() if last else ", "", "rule",
         "The last micro-batch has to run outside no_sync"),
    slip("7", "adds up the losses", " * (len(x) / total)", "", "value",
         "This is the sum over 2 micro-batches"),
    slip("7", "takes the mean of means", "(len(x) / total)", "(1 / len(micro_batches))", "value",
         "mean of the micro-batches' means"),
    slip("7", "keeps old gradients", "    ddp.zero_grad()\n", "", "value",
         "The gradients of the step before are still in it"),
    slip("7", "synchronises too early", "last = number == len(micro_batches)", "last = number == 1",
         "value", "that of the mean loss over all examples of all ranks"),
)  # fmt: skip

SEED = "manual_seed(self.seed * 1_000_003 + self.epoch)"

SAMPLER = (
    slip("8", "seeds with the rank", SEED, "manual_seed(self.seed + self.epoch + self.rank)",
         "rule", "is your permutation seeded with the rank?"),
    slip("8", "ignores the epoch", SEED, "manual_seed(self.seed)", "rule",
         "put the epoch into the generator's seed"),
    slip("8", "does not pad", "len(self) * self.world, self.world)", "self.length, self.world)",
         "rule", "Fill up by repeating from the beginning"),
    slip("8", "pads with one sample", "order[i % self.length]",
         "order[i if i < self.length else 0]", "rule", "place i of the data set's order", 4),
    slip("8", "counts the padding", "place < sampler.length for", "True for", "value",
         "this mean counts the repeated ones again"),
    slip("8", "does not reduce", "    dist.all_reduce(sums)\n", "", "value",
         "the mean of this rank's samples only"),
    slip("8", "moves the global generator",
         "generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)",
         "generator = torch.manual_seed(self.seed * 1_000_003 + self.epoch)", "rule",
         "Draw from a torch.Generator of your own"),
    slip("8", "is DistributedSampler", "        order = list(range(self.length))\n",
         "        torch.utils.data.DistributedSampler(range(9), 1, 0)\n"
         "        order = list(range(self.length))\n", "library", "it is what this task rebuilds"),
    slip("8", "counts from 1", "generator=generator).tolist()",
         "generator=generator).add(1).tolist()", "rule", "there are indices that do not exist"),
    slip("8", "shuffles, then pads with one sample", "order[i % self.length]",
         "order[0 if self.shuffle and i >= self.length else i % self.length]", "rule",
         "Repeat the whole order from its beginning", 4),
    slip("8", "keeps one generator", f"torch.Generator().{SEED}",
         f"self.__dict__.setdefault('kept', torch.Generator().{SEED})", "rule",
         "One epoch has one order"),
    slip("8", "counts its epochs", "        self.epoch = epoch", "        self.epoch += epoch + 1",
         "rule", "a resumed run repeats it"),
    slip("8", "ignores the seed", SEED, "manual_seed(self.epoch)", "rule",
         "The seed must change the permutation"),
    slip("8", "shuffles from epoch 1 on", "if self.shuffle:", "if self.shuffle and self.epoch:",
         "rule", "shuffle=True gave the plain order"),
    slip("8", "ranks part in epoch 1", SEED,
         "manual_seed(self.seed * 1_000_003 + self.epoch * (1 + self.rank))", "rule",
         "100 samples, epochs"),
    slip("8", "cuts blocks", "range(self.rank, len(self) * self.world, self.world)",
         "range(self.rank * len(self), (self.rank + 1) * len(self))", "rule",
         "place i of the data set's order goes to rank i % p"),
)  # fmt: skip

POWERSGD = (
    slip("9", "forgets the error", "gradient + state.errors.get(parameter, 0)", "gradient", "rule",
         "What a step cannot send must not be lost"),
    slip("9", "forgets the old error", "state.errors[parameter] = matrix - result",
         "state.errors[parameter] = gradient - result", "rule",
         "Is the old error part of the new one?"),
    slip("9", "leaves the sum", "    return tensor.div_(dist.get_world_size())\n",
         "    return tensor\n", "value", "This is the sum over the ranks"),
    slip("9", "sends whole gradients", "        if gradient.dim() > 1 and", "        if False and",
         "traffic", "Only P, Q and the vectors travel"),
    slip("9", "P is not orthonormal", "torch.linalg.qr(averaged(matrix @ basis)).Q.contiguous()",
         "averaged(matrix @ basis)", "value", "if P is orthonormal when Q is computed"),
    slip("9", "divides by a norm of 0", "averaged(matrix @ basis)",
         "averaged(matrix @ basis / matrix.norm())", "value", "There is nan in it"),
    slip("9", "rounds on each rank", "    dist.all_reduce(tensor)\n",
         "    dist.all_reduce(tensor)\n    tensor.mul_(1 + 1e-9 * dist.get_rank())\n", "replicas",
         "All ranks must compute the same P and Q"),
    WrongAnswer("9", "keeps errors by place", (
        ("for gradient, parameter in zip(bucket.gradients(), bucket.parameters(), strict=True):",
         "for parameter, gradient in enumerate(bucket.gradients()):"),
    ), "raised", "under a place where another parameter stands now"),
    slip("9", "the Future holds a list", "set_result(bucket.buffer())",
         "set_result([bucket.buffer()])", "rule", "the Future holds something else"),
    slip("9", "returns the tensor", "    return future\n", "    return bucket.buffer()\n", "rule",
         "the hook returned no Future"),
    slip("9", "Q is not averaged", "averaged(matrix.T @ p)", "matrix.T @ p", "value",
         "This is the rank's own gradient: it was never averaged"),
)  # fmt: skip

ZERO = (
    slip("10", "keeps all state everywhere", "if self.owner[p] == dist.get_rank()]", "]", "traffic",
         "this rank needs only those of its own share", 4),
    slip("10", "gives everything to rank 0", "loads.index(min(loads))", "0", "traffic",
         "deal the parameters out evenly", 4),
    slip("10", "does not send", "            dist.broadcast(p.data, src=self.owner[p], async_op=Tru"
         "e)\n            for p in self.params\n            if p.grad is not None\n", "", "value",
         "the owner of this parameter has to send it"),
    slip("10", "clears its own share only", "        for parameter in self.params:\n"
         "            parameter.grad = None\n",
         "        if self.inner is not None:\n            self.inner.zero_grad()\n", "rule",
         "the next backward would add to the old ones"),
    slip("10", "makes an empty optimizer", " if mine else None", "", "raised",
         "There can be more ranks than parameters"),
    slip("10", "steps what has no gradient", "        if self.inner is not None:\n",
         "        for p in self.params:\n"
         "            p.grad = torch.zeros_like(p) if p.grad is None else p.grad\n"
         "        if self.inner is not None:\n", "value", "weight decay would shrink it"),
    slip("10", "is ZeroRedundancyOptimizer", "        self.params = list(params)\n",
         "        from torch.distributed.optim import ZeroRedundancyOptimizer\n"
         "        self.params = list(params)\n", "library", "it is what this task rebuilds"),
    slip("10", "sends from rank 0", "src=self.owner[p]", "src=0", "value",
         "the owner of this parameter has to send it"),
    slip("10", "steps small ones everywhere", "if self.owner[p] == dist.get_rank()]",
         "if self.owner[p] == dist.get_rank() or p.numel() < 10]", "traffic",
         "Each parameter has one owner", 4),
    slip("10", "sends three times", "            for p in self.params\n            if p.grad",
         "            for p in self.params * 3\n            if p.grad", "traffic",
         "Each parameter is to be sent once, by its owner"),
    slip("10", "touches what has arrived", "            work.wait()\n", "            work.wait()\n"
         "        for p in self.params:\n            p.data.mul_(1 + 1e-13 * dist.get_rank())\n",
         "replicas", "Owners must send the bits they computed"),
    slip("10", "does not wait", "            work.wait()", "            pass", "unawaited",
         "never awaited"),
)  # fmt: skip

BUGS = (
    slip("11.1", "guesses", 'DIAGNOSIS = "b"', 'DIAGNOSIS = "a"', "diagnosis",
         "Which lines does rank 1 execute?"),
    slip("11.1", "reduces on rank 0", "    mean = loss.detach().clone()\n",
         '    if dist.get_rank() != 0:\n        return ""\n    mean = loss.detach().clone()\n',
         "rule",
         "may hold numbers of another rank's next call"),
    slip("11.2", "does not wait", "        work.wait()", "        pass", "unawaited",
         "An asynchronous call returns before its data has moved"),
    slip("11.2", "forgets to divide", "tensor / dist.get_world_size()", "tensor", "value",
         "Start all, then wait for each, then divide"),
    slip("11.2", "gives up the overlap",
         "    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]\n"
         "    for work in works:\n        work.wait()\n",
         "    for tensor in tensors:\n        dist.all_reduce(tensor)\n", "rule",
         "the reductions do not overlap any more"),
    slip("11.2", "waits at once", "dist.all_reduce(tensor, async_op=True) for",
         "dist.all_reduce(tensor) for", "raised", "Something is None here"),
    slip("11.3", "keeps reduce_scatter", "    maximum = values.clone()\n",
         "    chunk = torch.empty(len(values) // dist.get_world_size())\n"
         "    dist.reduce_scatter_tensor(chunk, values, op=dist.ReduceOp.MAX)\n    return chunk\n"
         "    maximum = values.clone()\n", "value", "the op did not reach the backend"),
    slip("11.3", "changes its argument", "values.clone()", "values", "value",
         "It was to stay unchanged"),
    slip("11.4", "does not set the epoch", "        sampler.set_epoch(epoch)\n", "", "rule",
         "tell the sampler the epoch"),
    slip("11.4", "sets another on each rank", "set_epoch(epoch)", "set_epoch(epoch * 7 + sampler.ra"
         "nk)", "rule", "All ranks must set the same epoch"),
    slip("11.5", "keeps the dict's order", "sorted(metrics)", "metrics", "rule",
         "This rank's first call met another metric"),
    slip("11.6", "makes uneven calls", "    dist.all_reduce(steps, op=dist.ReduceOp.MAX)\n", "",
         "hang", "A rank with fewer batches left the loop earlier", 3),
    slip("11.6", "stops with the first", "op=dist.ReduceOp.MAX", "op=dist.ReduceOp.MIN", "value",
         "as many as the rank with most batches has", 3),
    slip("11.7", "sends nothing", "        dist.broadcast(tensor.data, src=0)", "        pass",
         "value", "nobody sent it the checkpoint's"),
    slip("11.7", "makes new tensors", "load_state_dict(checkpoint)",
         "load_state_dict(checkpoint, assign=True)", "rule", "copy into them"),
    slip("11.8", "receives into one tensor",
         "[torch.empty_like(embeddings) for _ in range(dist.get_world_size())]",
         "[torch.empty_like(embeddings)] * dist.get_world_size()", "value",
         "how many receive buffers are there?"),
)  # fmt: skip

WRONG_ANSWERS = (
    *BROADCAST,
    *HOSTILE,
    *RING,
    *TOKENS,
    *NAIVE,
    *FLAT,
    *OVERLAPPED,
    *ACCUMULATION,
    *SAMPLER,
    *POWERSGD,
    *ZERO,
    *BUGS,
)
