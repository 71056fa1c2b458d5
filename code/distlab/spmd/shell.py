"""What of a folder a shell script reads: its commands cannot be asked, so its words stand in."""

from __future__ import annotations

import glob
import os
import re
from pathlib import Path

BETWEEN = re.compile(r"[\s'\"`;|&<>(){}$=:,]+")
"""What separates words, quoted or not, and takes `--option=FILE` apart."""


def named(script: str, work: Path, root: Path) -> set[str]:
    """Return the files and folders below `root` that words of a script started in `work` name.

    Rather too many than too few: each word and pattern counts, also below each folder that is
    named, as a `cd` may lead there. Paths are relative to `root`; a folder's ends in "/".
    """
    words = set(BETWEEN.split(script)) - {""}
    folders = [work / word for word in words if os.path.isdir(work / word)]
    # In the working folder "*" matches only its links, and stands in many a Python program.
    paths = {path for word in words - {"*"} for path in _matches(work, word)}
    paths |= {path for folder in folders for word in words for path in _matches(folder, word)}
    real = {real for path in paths if (real := Path(path).resolve()).is_relative_to(root)}
    return {path.relative_to(root).as_posix() + "/" * path.is_dir() for path in real}


def _matches(folder: Path, word: str) -> set[str]:
    path = os.path.join(folder, word)
    paths = {path}
    if glob.has_magic(word):
        matches = glob.glob(path)
        paths = {*matches, *map(os.path.dirname, [path, *matches])}
    return {path for path in paths if os.path.exists(path)}
