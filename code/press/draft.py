"""A site while it is built: in a folder beside the one where it will be, swapped in as a whole.

So whoever looks at the site sees the last whole one, until a better one is whole. A build that is
killed leaves its folder; the next build of the same site removes it.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import shutil
import sys
from pathlib import Path

AT_FDCWD = -100
RENAME_EXCHANGE = 2


class Draft:
    """The folder in which a site is built.

    site:   where it will be, as MkDocs' site_dir
    folder: where it is built; locked, so that other builds see that it is in use
    """

    def __init__(self, site: Path) -> None:
        """Make an empty folder, and remove those of builds that were killed."""
        self.site = site.resolve()
        self.folder = self.site.with_name(f".{self.site.name}.{os.getpid()}.draft")
        self.site.parent.mkdir(parents=True, exist_ok=True)
        for left in self.site.parent.glob(f".{self.site.name}.*.draft"):
            if (lock := _lock(left)) is not None:
                shutil.rmtree(left, ignore_errors=True)
                os.close(lock)
        self.folder.mkdir()
        self._open = _lock(self.folder)

    def publish(self) -> None:
        """Put the draft where the site is, in one step; what was there is removed."""
        if not self.site.exists():
            self.folder.rename(self.site)
        else:
            _exchange(self.folder, self.site)
            # As MkDocs does when it empties a folder: .git and the like are not the build's.
            for hidden in self.folder.glob(".*"):
                if not (self.site / hidden.name).exists():
                    hidden.rename(self.site / hidden.name)
        self.discard()

    def discard(self) -> None:
        """Remove the draft, or after it was published the old site. May be called again."""
        shutil.rmtree(self.folder, ignore_errors=True)
        if self._open is not None:
            os.close(self._open)
            self._open = None


def _lock(folder: Path) -> int | None:
    """Return a descriptor that holds the folder's lock; None if another process has it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        # A lock and not the process' number: the kernel takes it back however a build ends.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _exchange(one: Path, other: Path) -> None:
    """Let two folders swap their names, in one step where the system knows how."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        names = (AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other))
        if libc.renameat2(*names, RENAME_EXCHANGE) == 0:
            return
        number = ctypes.get_errno()
        if number not in (errno.ENOSYS, errno.EINVAL):
            raise OSError(number, os.strerror(number), str(other))
    aside = one.with_name(f"{one.name}.old")
    other.rename(aside)
    one.rename(other)
    aside.rename(one)
