"""The store of each run, hosted outside its ranks, as torchrun's agent hosts it.

One process keeps a TCPStore for every run in flight. It is apart from the fork server because a
store has threads of its own, and a process with threads must not fork.
"""

from __future__ import annotations

import os
import signal
import socket

from distlab.spmd import processes


class StoreHost:
    """Starts the process and asks it for stores; each listens on 127.0.0.1 and a free port."""

    def __init__(self) -> None:
        """Fork the process; call this from a process that has imported torch and has no threads."""
        self._socket, theirs = socket.socketpair()
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            self._socket.close()
            _serve(theirs, parent)
        theirs.close()
        self._lines = self._socket.makefile("rw")

    def open(self) -> int:
        """Start a store and return its port. Raises OSError if the process is gone."""
        return int(self._ask("open"))

    def close(self, port: int) -> None:
        """Stop the store at this port."""
        self._ask(f"close {port}")

    def fileno(self) -> int:
        """Return the descriptor to close in a forked rank."""
        return self._socket.fileno()

    def _ask(self, line: str) -> str:
        self._lines.write(line + "\n")
        self._lines.flush()
        answer = self._lines.readline()
        if not answer:
            raise OSError("the process that hosts the stores has ended")
        return answer


def _serve(connection: socket.socket, parent: int) -> None:
    processes.die_with_parent(parent)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    stores = {}
    try:
        with connection.makefile("rw") as lines:
            for line in lines:
                verb, *port = line.split()
                if verb == "open":
                    port = [_listen(stores)]
                else:
                    del stores[int(port[0])]  # the destructor joins the store's thread
                lines.write(f"{port[0]}\n")
                lines.flush()
    finally:
        os._exit(0)


def _listen(stores: dict) -> int:
    from torch.distributed import TCPStore

    # TCPStore itself binds every interface; a socket handed over is bound where we say.
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    stores[port] = TCPStore(
        "127.0.0.1",
        port,
        is_master=True,
        wait_for_workers=False,
        master_listen_fd=listener.detach(),
    )
    return port
