"""Count the bytes that this process has sent over TCP, from the kernel's own counters.

gloo moves its data over TCP sockets of the process, so the difference of two readings around
a collective is what that collective cost this rank. Linux only, and no privilege needed.
"""

import os
import socket
import stat
import struct
import sys
from pathlib import Path

# `tcpi_bytes_sent` in the kernel's `struct tcp_info` (include/uapi/linux/tcp.h, since Linux 4.19).
BYTES_SENT = struct.Struct("@Q")
BYTES_SENT_OFFSET = 200
TCP_INFO_LENGTH = BYTES_SENT_OFFSET + BYTES_SENT.size


def available() -> bool:
    """Tell whether this system keeps the counter (Linux does)."""
    return sys.platform == "linux" and Path("/proc/self/fd").is_dir()


def sent() -> int:
    """Return the bytes sent so far over all TCP sockets that are open in this process.

    A peer that leaves closes its connections, and their bytes are gone from the sum: keep every
    rank in the group until all have read (one more `dist.barrier()`).

    Raises:
        RuntimeError: the system keeps no such counter; ask `available()` first.
    """
    if not available():
        raise RuntimeError(
            f"no TCP byte counter on {sys.platform}: it is Linux's; "
            "ask wire.available() and skip the measurement"
        )
    return sum(sent_by(int(name)) for name in os.listdir("/proc/self/fd"))  # noqa: PTH208


def sent_by(descriptor: int) -> int:
    """Return the bytes sent over one descriptor of this process, 0 if it is no TCP socket."""
    try:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return 0
        with socket.socket(fileno=os.dup(descriptor)) as twin:
            info = twin.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_LENGTH)
    except OSError:  # closed meanwhile, or a socket of another kind
        return 0
    return BYTES_SENT.unpack_from(info, BYTES_SENT_OFFSET)[0] if len(info) == TCP_INFO_LENGTH else 0
