"""On a rank: note every call of torch.distributed, its bytes, its line, and whether it was awaited.

Installed before the learner's file is loaded, so that `from torch.distributed import send` finds
the wrapped function too. Calls that torch makes inside another call are not noted.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from distlab.practice.task import COLLECTIVES, POINT_TO_POINT

TRANSPARENT = frozenset({"batch_isend_irecv"})
"""Functions that only call others; the others are noted instead."""

STARTS_PROCESS = frozenset({"os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system"})


@dataclass
class Call:
    """One call of a function of torch.distributed.

    bytes is the size of the largest argument: the tensor of a send or an all_reduce, the gathered
    output of an all_gather.
    """

    name: str
    bytes: int
    numel: int
    dtype: str
    peer: int | None
    is_async: bool
    line: int
    awaited: bool = True
    error: str = ""


class WatchedWork:
    """A Work that notes when it was awaited; everything else goes to the real one."""

    def __init__(self, work: dist.Work, call: Call, dropped: Callable[[Call], None]) -> None:
        """Stand in for `work`; `dropped` is called if it is thrown away without a wait()."""
        self._work, self._call, self._dropped = work, call, dropped

    def wait(self, *args: object, **kwargs: object) -> bool:
        """Wait for the call, like Work.wait."""
        self._call.awaited = True
        return self._work.wait(*args, **kwargs)

    def get_future(self) -> torch.futures.Future:
        """Return the future of the call; who asks for it is trusted to wait for it."""
        self._call.awaited = True
        return self._work.get_future()

    def is_completed(self) -> bool:
        """Tell whether the call is done; a loop that polls until then has awaited it."""
        done = self._work.is_completed()
        self._call.awaited = self._call.awaited or done
        return done

    def __getattr__(self, name: str) -> object:
        return getattr(self._work, name)

    def __del__(self) -> None:
        if not self._call.awaited:
            self._dropped(self._call)


class Recorder:
    """The calls of one rank, in order, and the marks that a task puts between them."""

    def __init__(self, path: str, dropped: Callable[[Call], None]) -> None:
        """Wrap torch.distributed; `path` is the learner's file, whose lines are noted."""
        self.path, self.dropped = path, dropped
        self.log: list[Call | str] = []
        self.processes: list[tuple[str, int]] = []
        self.listening = False
        self._inside = 0
        for name in sorted(COLLECTIVES | POINT_TO_POINT):
            self._wrap(name)
        sys.addaudithook(self._audit)

    @property
    def calls(self) -> list[Call]:
        """The calls since `clear`, without the marks."""
        return [entry for entry in self.log if isinstance(entry, Call)]

    def clear(self) -> None:
        """Forget what was noted."""
        self.log.clear()

    def mark(self, text: str) -> None:
        """Put a mark between two calls."""
        self.log.append(text)

    @contextmanager
    def quietly(self) -> Iterator[None]:
        """Do not note the calls of a body: they are the grader's, not the answer's."""
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1

    def line(self) -> int:
        """Return the line of the learner's file that is being executed, 0 if none is."""
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename == self.path:
                return frame.f_lineno
            frame = frame.f_back
        return 0

    def _audit(self, event: str, _args: tuple) -> None:
        if self.listening and (event in STARTS_PROCESS or event == "subprocess.Popen"):
            self.processes.append((event, self.line()))

    def _wrap(self, name: str) -> None:
        function = getattr(distributed_c10d, name)

        @functools.wraps(function)
        def communicate(*args: object, **kwargs: object) -> object:
            if not self.listening or self._inside or name in TRANSPARENT:
                return function(*args, **kwargs)
            call = self._note(name, args, kwargs)
            self._inside += 1
            try:
                result = function(*args, **kwargs)
            except Exception as error:
                call.error = f"{type(error).__name__}: {error}"
                raise
            finally:
                self._inside -= 1
            if call.is_async and isinstance(result, dist.Work):
                call.awaited = False
                return WatchedWork(result, call, self.dropped)
            return result

        # Both names: P2POp compares with the functions of the module that defines it.
        setattr(distributed_c10d, name, communicate)
        setattr(dist, name, communicate)

    def _note(self, name: str, args: tuple, kwargs: dict) -> Call:
        values = [*args, *kwargs.values()]
        groups = [group for value in values if (group := _tensors(value))]
        largest = max(groups, key=_bytes, default=[])
        call = Call(
            name=name,
            bytes=_bytes(largest),
            numel=sum(t.numel() for t in largest),
            dtype=str(largest[0].dtype).removeprefix("torch.") if largest else "",
            peer=_peer(name, args, kwargs),
            is_async=name in ("isend", "irecv") or any(value is True for value in values),
            line=self.line(),
        )
        self.log.append(call)
        return call


def _peer(name: str, args: tuple, kwargs: dict) -> int | None:
    if name not in POINT_TO_POINT:
        return None
    named = (kwargs.get(key) for key in ("dst", "src", "group_dst", "group_src"))
    return next((peer for peer in named if peer is not None), args[1] if len(args) > 1 else None)


def _tensors(value: object) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [tensor for tensor in value if isinstance(tensor, torch.Tensor)]
    return []


def _bytes(tensors: list[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
