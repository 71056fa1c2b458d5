"""Outcomes on disk, one file each, under a key made of everything that could change them."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from distlab.spmd import Outcome


class Cache:
    """A folder of outcomes. `sources` are the files that any program might use."""

    def __init__(self, folder: Path, sources: Iterable[Path]) -> None:
        """Read nothing yet; the folder is made when the first outcome is stored."""
        self.folder = folder
        self.sources = sorted(sources)

    @cached_property
    def surroundings(self) -> str:
        """A digest of what every program shares: the sources, torch, Python, the machine's kind."""
        digest = hashlib.sha256()
        for path in self.sources:
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
        """Return what was stored under this key, or None; a damaged file counts as none."""
        try:
            return Outcome.from_json(json.loads((self.folder / f"{key}.json").read_text()))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, key: str, outcome: Outcome) -> None:
        """Store an outcome; a reader beside us sees the whole file or none."""
        self.folder.mkdir(parents=True, exist_ok=True)
        part = self.folder / f"{key}.{os.getpid()}.part"
        part.write_text(json.dumps(outcome.to_json()))
        part.replace(self.folder / f"{key}.json")
