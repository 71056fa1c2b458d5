"""Where exercises are found: the learner's folder, the untouched originals, the solutions.

In the downloaded zip, originals and solutions lie inside this package; in the repository, they are
the course's own files.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from distlab.practice import tasks
from distlab.practice.task import Task

HERE = Path(__file__).parent
ROOT = HERE.parents[2]

IN_REPOSITORY = {
    "originals": ROOT / "content" / "courses" / "pytorch" / "exercises" / "26",
    "solutions": ROOT / "site" / "modules" / "26_ddp_gloo" / "solutions",
}


def shipped(kind: str) -> Path:
    """Return the folder of the "originals" or the "solutions"."""
    packed = HERE / kind
    return packed if packed.is_dir() else IN_REPOSITORY[kind]


def exercises_in(folder: Path) -> Path | None:
    """Return the folder that holds exercises: this one, or "exercises" in it; None if neither."""
    files = [task.file for task in tasks.everything()]
    for place in (folder, folder / "exercises"):
        if any((place / file).is_file() for file in files):
            return place
    return None


@dataclass
class Progress:
    """What has been reached, kept in a small file beside the exercises.

    passed: by task id, the fingerprint of the text that passed; another text has to pass again
    hints:  by task id, how many of its hints were shown
    """

    path: Path
    passed: dict[str, str] = field(default_factory=dict)
    hints: dict[str, int] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path) -> Progress:
        """Read the progress of a folder; a file that cannot be read counts as none."""
        progress = cls(folder / ".progress.json")
        try:
            data = json.loads(progress.path.read_text())
            progress.passed = {str(k): str(v) for k, v in data["passed"].items()}
            progress.hints = {str(k): int(v) for k, v in data["hints"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            pass
        return progress

    def state(self, task: Task) -> str:
        """Return "passed", "changed" since it passed, "begun" or "open"."""
        path = self.path.parent / task.file
        if not path.is_file():
            return "missing"
        text = path.read_text(errors="replace")
        if task.id in self.passed:
            return "passed" if self.passed[task.id] == fingerprint(text) else "changed"
        original = shipped("originals") / task.file
        return "open" if text == original.read_text() else "begun"

    def save(self) -> None:
        """Write the file in one step, so that a Ctrl-C leaves the old or the new one."""
        text = json.dumps({"passed": self.passed, "hints": self.hints}, indent=1)
        with tempfile.NamedTemporaryFile("w", dir=self.path.parent, delete=False) as file:
            file.write(text + "\n")
        Path(file.name).replace(self.path)


def fingerprint(text: str) -> str:
    """Return a short fingerprint of an answer's text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
