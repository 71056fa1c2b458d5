"""On a rank: run an answer through the cases of its task, compare, and report.

A report is a line of JSON after a token that only this run knows, written to a descriptor of its
own, so that what the answer prints can neither forge nor break one. After every case the ranks tell
each other through the store (not through the process group, which the answer may have ruined) how
it went, and go on only together.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import linecache
import os
import sys
import time
import traceback
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from distlab.practice import dynamo, tasks
from distlab.practice.recorder import Call, Recorder
from distlab.practice.task import Task

TOLERANCE = {
    torch.float64: (1e-9, 1e-12),
    torch.float32: (1e-4, 1e-6),
    torch.bfloat16: (2e-2, 2e-2),
}
"""By dtype, the relative and absolute difference from the float64 reference that is rounding."""


PATIENCE = timedelta(seconds=1)
"""How long a rank that has failed waits for the others before it ends, and ends them by that."""


class Wrong(Exception):  # noqa: N818 - it is a finding, not an error
    """A check of ours has failed; the fields say what was expected, what came, what to think of."""

    def __init__(self, kind: str, what: str, think: str, expected: str = "", got: str = "") -> None:
        """Keep the parts apart for the report."""
        super().__init__(what)
        self.parts = {"kind": kind, "what": what, "think": think}
        self.parts |= {"expected": expected, "got": got}


class Stop(Exception):  # noqa: N818
    """A case has failed on some rank: every rank stops after it."""


class Bench:
    """What the cases of a task are written with.

    rank, world: this rank and the number of ranks
    answer:      the module made from the learner's file
    record:      the calls of the current case
    """

    def __init__(self, task: Task, token: str) -> None:
        """Join the process group and wrap torch.distributed; the answer is loaded by `load`."""
        self._out = os.dup(1)
        self._pid = os.getpid()
        self._token = token
        self.task = task
        self.rank, self.world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        self._store = dist.TCPStore(*address, is_master=False, timeout=timedelta(hours=1))
        dist.init_process_group(
            "gloo",
            store=dist.PrefixStore("answer", self._store),
            rank=self.rank,
            world_size=self.world,
            timeout=timedelta(hours=1),  # the run's own deadline comes first, and shows stacks
        )
        dynamo.stand_in()
        self.record = Recorder(str(Path.cwd() / task.file), self._dropped)
        self.answer = types.ModuleType("answer")
        self._case = 0
        self._across: list[tuple[object, Callable[[list], None]]] = []

    # How a case runs

    def load(self) -> None:
        """Execute the learner's file and look for the names that the task asks for."""
        with self.case("loading your file"):
            path = Path(self.record.path)
            self.answer.__file__ = str(path)
            code = compile(path.read_text(), path, "exec", dont_inherit=True)
            exec(code, self.answer.__dict__)  # noqa: S102 - this is what a grader is for
            for name in self.task.asks:
                if not hasattr(self.answer, name):
                    think = "Reset the task if its signature is gone: the grader calls it by name."
                    raise Wrong("missing", f"the file defines no `{name}`", think)

    @contextmanager
    def case(self, name: str) -> Iterator[None]:
        """Run a body as one case: report what it raises; stop every rank if any failed."""
        self._case += 1
        self._report("begin", name=name)
        self.record.clear()
        self._across.clear()
        failed = None
        self.record.listening = True
        try:
            yield
        except Wrong as wrong:
            failed = wrong.parts
        except NotImplementedError as error:
            failed = self._raised(error, "stub")
        except BaseException as error:
            failed = self._raised(error, "raised")
        self.record.listening = False
        if os.getpid() != self._pid:
            os._exit(0)  # a child that the answer forked has come back here
        failed = self._rules(failed) or failed
        self._agree(failed)

    def _raised(self, error: BaseException, kind: str) -> dict:
        frames = [
            f"line {frame.lineno}, in {frame.name}: {frame.line}"
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename == self.record.path
        ]
        if not frames and isinstance(error, TypeError | AttributeError):
            kind = "signature"
        elif not frames and not isinstance(error, RuntimeError):
            kind = "internal"
            frames = [str(f) for f in traceback.extract_tb(error.__traceback__)[-2:]]
        text = f"{type(error).__name__}: {error}".strip().rstrip(":")
        return {"kind": kind, "what": text, "think": "", "got": "\n".join(frames), "expected": ""}

    def _rules(self, failed: dict | None) -> dict | None:
        """Return what the answer did that no answer may do, whatever it computed."""
        if self.record.processes:
            event, line = self.record.processes.pop()
            return Wrong("process", f"line {line} starts a process ({event})", "").parts
        for call in self.record.calls:
            if call.name not in self.task.allows:
                return Wrong("library", f"line {call.line} calls dist.{call.name}", "").parts
        raised = next((call for call in self.record.calls if call.error), None)
        if raised and (failed is None or failed["kind"] in ("value", "rule", "traffic")):
            what = f"dist.{raised.name} on line {raised.line} raised"
            return Wrong("swallowed", what, "", got=raised.error).parts
        return None

    def _agree(self, failed: dict | None) -> None:
        if failed:
            self._report("fail", **failed)
        mine = {"ok": failed is None, "across": [value for value, _ in self._across]}
        self._report("returned")
        every = self._exchange(mine, failed)
        if not all(rank["ok"] for rank in every):
            raise Stop
        for index, (_, judge) in enumerate(self._across):
            try:
                judge([rank["across"][index] for rank in every])
            except Wrong as wrong:
                self._report("fail", **wrong.parts)
                raise Stop from None

    def _exchange(self, mine: dict, failed: dict | None) -> list[dict]:
        self._store.set(f"{self._case}/{self.rank}", json.dumps(mine))
        if failed and failed["kind"] in ("raised", "stub", "signature", "internal"):
            # Peers may wait for what this rank will never send: leaving tells them at once.
            self.leave(1)
        if failed:
            self._store.set_timeout(PATIENCE)
        keys = [f"{self._case}/{rank}" for rank in range(self.world)]
        try:
            return [json.loads(self._store.get(key)) for key in keys]
        except dist.DistError:
            self.leave(1)

    def leave(self, status: int) -> None:
        """End this process without another word, when every rank has seen the last case."""
        with suppress(OSError, ValueError, AttributeError):  # the answer may have closed it
            sys.stdout.flush()
        os._exit(status)

    def _report(self, event: str, **fields: object) -> None:
        if os.getpid() != self._pid:
            return
        fields |= {"event": event, "case": self._case, "time": time.monotonic()}
        os.write(self._out, f"\n{self._token} {json.dumps(fields)}\n".encode())

    def _dropped(self, call: Call) -> None:
        self._report("dropped", name=f"dist.{call.name}", line=call.line)

    def done(self) -> None:
        """Report that every case has passed here."""
        self._report("done")

    # What a task's cases check

    def close(
        self,
        what: str,
        got: object,
        expected: torch.Tensor,
        think: str,
        known: tuple[tuple[torch.Tensor, str], ...] = (),
        *,
        rtol: float = 0.0,
    ) -> None:
        """Compare a tensor with its float64 reference, up to the rounding of its dtype, or rtol.

        `known` are values that typical mistakes lead to, each with what to say then.
        """
        if not isinstance(got, torch.Tensor):
            raise Wrong("value", what, think, show(expected), repr(got)[:200])
        if got.shape == expected.shape and same(got, expected, got.dtype, rtol):
            return
        for value, say in known:
            if value.shape == got.shape and same(got, value, got.dtype, rtol):
                think = say
                break
        if got.isnan().any() and "nan" not in think:
            think += " There is nan in it: where is something divided by zero?"
        raise Wrong("value", what, think, *difference(expected, got))

    def require(
        self, truth: bool, what: str, think: str, expected: str = "", got: object = ""
    ) -> None:
        """Fail with these words unless `truth`."""
        if not truth:
            raise Wrong("rule", what, think, expected, str(got))

    def at_most(self, what: str, number: int, limit: int, think: str) -> None:
        """Fail if a count or a number of bytes is above its limit."""
        if number > limit:
            raise Wrong("traffic", what, think, f"at most {limit:,}", f"{number:,}")

    def identical(self, what: str, tensors: list[torch.Tensor], think: str) -> None:
        """After the case, compare tensors bit by bit over the ranks."""

        def judge(digests: list[str]) -> None:
            if len(set(digests)) > 1:
                other = next(r for r, digest in enumerate(digests) if digest != digests[0])
                raise Wrong("replicas", f"{what} differ between rank 0 and rank {other}", think)

        self._across.append((digest(tensors), judge))

    def across(self, value: object, judge: Callable[[list], None]) -> None:
        """After the case, call `judge` with the values of all ranks; it may call `require`."""
        self._across.append((value, judge))

    def calls(self, *names: str) -> list[Call]:
        """Return the calls of this case with one of these names; all of them without names."""
        return [call for call in self.record.calls if not names or call.name in names]

    def all_awaited(self) -> None:
        """Fail if the answer never waited for a call that it started."""
        for call in self.calls():
            if not call.awaited:
                what = f"dist.{call.name} on line {call.line} was started and never awaited"
                think = (
                    "An asynchronous call returns before its data has moved. Keep the Work it"
                    " returns and call wait() before you read or change the tensor."
                )
                raise Wrong("unawaited", what, think)


def same(got: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype, least: float = 0) -> bool:
    """Tell whether two tensors of one shape agree up to the rounding of `dtype`, or `least`."""
    rtol, atol = (max(least, part) for part in TOLERANCE.get(dtype, (0, 0)))
    return torch.allclose(got.detach().double(), expected.detach().double(), rtol=rtol, atol=atol)


def show(tensor: torch.Tensor, first: int = 0, count: int = 6) -> str:
    """Return a few elements of a tensor, then its dtype and shape."""
    values = tensor.detach().reshape(-1)[first : first + count].tolist()
    numbers = ", ".join(f"{v:.6g}" if isinstance(v, float) else str(v) for v in values)
    before = "…, " if first else ""
    after = ", …" if first + count < tensor.numel() else ""
    dtype = str(tensor.dtype).removeprefix("torch.")
    return f"[{before}{numbers}{after}] ({dtype}, shape {tuple(tensor.shape)})"


def difference(expected: torch.Tensor, got: torch.Tensor) -> tuple[str, str]:
    """Return both tensors as text, from the first element in which they differ."""
    first = 0
    if expected.shape == got.shape and expected.numel() > 6:
        pairs = zip(expected.reshape(-1), got.detach().reshape(-1), strict=True)
        first = next((i for i, (a, b) in enumerate(pairs) if not same(b, a, got.dtype)), 0)
    if first < 3:
        first = 0
    return show(expected.to(got.dtype), first), show(got, first)


def digest(tensors: list[torch.Tensor]) -> str:
    """Return a fingerprint of the bits of some tensors."""
    sums = hashlib.sha256()
    for tensor in tensors:
        sums.update(str((tensor.dtype, tuple(tensor.shape))).encode())
        laid = tensor.detach().contiguous()  # torch may be there without numpy
        sums.update(ctypes.string_at(laid.data_ptr(), laid.numel() * laid.element_size()))
    return sums.hexdigest()


def main(task_id: str, token: str) -> None:
    """Run every case of a task on this rank; the program that the grader starts calls this."""
    task = tasks.find(task_id)
    run = tasks.cases(task)
    linecache.checkcache()
    bench = Bench(task, token)
    try:
        bench.load()
        run(bench)
        bench.done()
    except Stop:
        pass
    bench.leave(0)
