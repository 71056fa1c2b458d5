"""Outcomes on disk, each valid as long as the files that its program read are what they were.

As in ccache's direct mode: a key is made of what is known before a run (the program, the runner,
torch, Python), and the file under a key holds a few entries, each the digests of what was read and
the outcome. An entry whose files all have these digests today is the outcome of a run today.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import os
import platform
from dataclasses import dataclass
from pathlib import Path

from distlab.spmd import RUNNER, Outcome

KEPT = 4
"""Entries under a key: who goes back to a file as it was finds its outcome still there."""

ABSENT = "absent"
"""Stands for the digest of a file that was looked for and is not there."""

BYTECODE = "__pycache__"


@dataclass(frozen=True)
class Entry:
    """An outcome, and a digest of each file that its program read, by its path below the root.

    The path of a folder that was listed ends in "/".
    """

    read: dict[str, str]
    outcome: Outcome

    def to_json(self) -> dict:
        """Return plain data."""
        return {"read": self.read, "outcome": self.outcome.to_json()}


class Cache:
    """A folder of outcomes of programs that read files below `root`."""

    def __init__(self, folder: Path, root: Path) -> None:
        """Read nothing yet; the folder is made when the first outcome is stored."""
        self.folder, self.root = folder, root
        self._known: dict[str, str] = {}

    @functools.cached_property
    def surroundings(self) -> str:
        """A digest of what every program shares: the runner, torch, Python, the machine's kind."""
        digest = hashlib.sha256()
        for path in RUNNER:
            digest.update(f"{path.name}\0".encode() + path.read_bytes() + b"\0")
        for version in (importlib.metadata.version("torch"), platform.python_version(),
                        platform.machine(), platform.system()):  # fmt: skip
            digest.update(version.encode() + b"\0")
        return digest.hexdigest()

    def key(self, asked: dict) -> str:
        """Return the key for what was asked: plain data, the program's text in it."""
        text = json.dumps([asked, self.surroundings], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def get(self, key: str) -> Outcome | None:
        """Return the outcome that a run would have, or None if none is stored.

        What a file holds is looked up once in the life of this object.
        """
        for entry in self._entries(key):
            if all(self._digest(path) == then for path, then in entry.read.items()):
                return entry.outcome
        return None

    def seconds(self, key: str) -> float:
        """Return how long a run took at most, whatever it had read then; 0 if none is stored."""
        return max((entry.outcome.seconds for entry in self._entries(key)), default=0.0)

    def put(self, key: str, outcome: Outcome, begun: float) -> None:
        """Store an outcome of a run that began at `begun`; readers see the whole file or none.

        Nothing is stored if a file that was read has changed since: which text was it?
        """
        if any(self._changed(path) > begun for path in outcome.read):
            return
        for path in outcome.read:
            self._known.pop(path, None)
        entry = Entry({path: self._digest(path) for path in outcome.read}, outcome)
        others = [each for each in self._entries(key) if each.read != entry.read]
        entries = [each.to_json() for each in (entry, *others[: KEPT - 1])]
        self.folder.mkdir(parents=True, exist_ok=True)
        part = self.folder / f"{key}.{os.getpid()}.part"
        part.write_text(json.dumps({"entries": entries}))
        part.replace(self.folder / f"{key}.json")

    def _entries(self, key: str) -> list[Entry]:
        """Return the entries under a key; a damaged file counts as none."""
        try:
            entries = json.loads((self.folder / f"{key}.json").read_text())["entries"]
            return [Entry(dict(e["read"]), Outcome.from_json(e["outcome"])) for e in entries]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return []

    def _digest(self, path: str) -> str:
        if path not in self._known:
            self._known[path] = digest(self.root / path, folder=path.endswith("/"))
        return self._known[path]

    def _changed(self, path: str) -> float:
        """Return when a file was changed; of a folder it is not asked, as bytecode changes it."""
        try:
            return 0.0 if path.endswith("/") else (self.root / path).stat().st_mtime
        except OSError:
            return 0.0


def digest(path: Path, *, folder: bool) -> str:
    """Return a digest of a file's bytes, or of the names in a folder; ABSENT if it is not there."""
    try:
        if folder:  # without bytecode, which appears with the first import
            names = sorted(each.name for each in path.iterdir() if each.name != BYTECODE)
            told = "\0".join(names).encode()
        else:
            told = path.read_bytes()
    except OSError:
        return ABSENT
    return hashlib.sha256(told).hexdigest()[:32]
