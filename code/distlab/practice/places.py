"""Where exercises are found: the learner's folder, the untouched originals, the solutions.

`originals` and `solutions` in this package are symbolic links to the course's own files; in the
downloaded zip they are folders, laid out alike: `originals/26/FILE` and
`solutions/26_STEM/solutions/FILE`.

A learner's folder holds the exercises of the module that is on offer; where there are several,
each has a sub-folder of its number, because two modules may have a 01_first.py.
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
ORIGINALS, SOLUTIONS = HERE / "originals", HERE / "solutions"


def original(task: Task) -> Path:
    """Return the untouched file of an exercise."""
    return ORIGINALS / task.module / task.file


def solution(task: Task) -> Path:
    """Return the file with its solution. Raises FileNotFoundError if there is none."""
    pattern = f"{task.module}_*/solutions/{task.file}"
    for path in SOLUTIONS.glob(pattern):
        return path
    raise FileNotFoundError(f"there is no solution of task {task.full_id}: {SOLUTIONS / pattern}")


def answer(folder: Path, task: Task) -> Path:
    """Return where a learner's folder holds the answer to a task."""
    return folder / task.module / task.file if tasks.modules()[1:] else folder / task.file


def exercises_in(folder: Path) -> Path | None:
    """Return the folder that holds exercises: this one, or "exercises" in it; None if neither."""
    for place in (folder, folder / "exercises"):
        if any(answer(place, task).is_file() for task in tasks.everything()):
            return place
    return None


@dataclass
class Notebook:
    """What has been reached in a module, kept in a small file beside its exercises.

    passed: by task id, the fingerprint of the text that passed; another text has to pass again
    hints:  by task id, how many of its hints were shown
    """

    path: Path
    passed: dict[str, str] = field(default_factory=dict)
    hints: dict[str, int] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path, task: Task) -> Notebook:
        """Read the progress in a task's module; a file that cannot be read counts as none."""
        progress = cls(answer(folder, task).with_name(".progress.json"))
        try:
            data = json.loads(progress.path.read_text())
            progress.passed = {str(k): str(v) for k, v in data["passed"].items()}
            progress.hints = {str(k): int(v) for k, v in data["hints"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            pass
        return progress

    def state(self, task: Task) -> str:
        """Return "passed", "changed" since it passed, "begun", "open" or "missing"."""
        path = self.path.with_name(task.file)
        if not path.is_file():
            return "missing"
        text = path.read_text(errors="replace")
        if task.id in self.passed:
            return "passed" if self.passed[task.id] == fingerprint(text) else "changed"
        return "open" if text == original(task).read_text() else "begun"

    def save(self) -> None:
        """Write the file in one step, so that a Ctrl-C leaves the old or the new one."""
        text = json.dumps({"passed": self.passed, "hints": self.hints}, indent=1)
        with tempfile.NamedTemporaryFile("w", dir=self.path.parent, delete=False) as file:
            file.write(text + "\n")
        Path(file.name).replace(self.path)


def fingerprint(text: str) -> str:
    """Return a short fingerprint of an answer's text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
