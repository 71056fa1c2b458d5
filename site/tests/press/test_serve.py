"""While pages are served, an edit costs what it changes, and a fault leaves what is served."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.request

import pytest

from tools.site_copy import Site
from tools.watch import eventually, processes_with

FENCE = '\n```python exec="on" source="above" result="text" id="one"\nprint("{}")\n```\n'
PAGES = {
    "index.md": "# A page\n\nProse of index. A rank waits.\n" + FENCE.format("first"),
    "other.md": "# Another page\n\nProse of other, to [a fence](index.md#fence-one).\n",
    "third.md": "# A third page\n\nProse of third.\n" + FENCE.format("third"),
    "glossary.md": "# Glossary\n\nrank { #rank }\n:   A process's number.\n",
}


class Serving:
    """A `mkdocs serve` of a copy of the site, on a port that the system chose."""

    def __init__(self, site: Site, temp) -> None:
        """Start it."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.site, self.lines = site, []
        env = os.environ | site.path | {"NO_MKDOCS_2_WARNING": "1", "TMPDIR": str(temp)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mkdocs", "serve", "-a", self.address],
            cwd=site.folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        self.lines += iter(self.process.stdout.readline, "")

    def wait(self, text: str, since: int = 0) -> str:
        """Wait for a line that holds `text`; return all that was said since the line `since`."""
        said = lambda: "".join(self.lines[since:])  # noqa: E731
        assert eventually(lambda: text in said(), 120), said()
        return said()

    def edit(self, name: str, old: str, new: str, until: str = "Reloading browsers") -> str:
        """Edit a page; return what was said until it was built again."""
        path, since = self.site.folder / "content" / name, len(self.lines)
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
        return self.wait(until, since)

    def get(self, name: str) -> str:
        """Return a page as a browser gets it."""
        with urllib.request.urlopen(f"http://{self.address}/{name}", timeout=60) as answer:
            return answer.read().decode()


@pytest.fixture
def serving(copy_of_site, tmp_path):
    """Serve four pages; afterwards nothing is left of it."""
    for name, text in PAGES.items():
        copy_of_site.write(text, name)
    temp = tmp_path / "temp"
    temp.mkdir()
    serving = Serving(copy_of_site, temp)
    serving.wait("Serving on")
    yield serving
    serving.process.send_signal(signal.SIGTERM)
    serving.process.wait(60)
    serving.reader.join(60)
    serving.process.stdout.close()

    assert eventually(lambda: not processes_with(str(temp)))
    assert list(temp.iterdir()) == []


def cost(said: str) -> tuple[int, int]:
    """Return how many pages were rendered and how many fences ran, as was said."""
    return int(re.search(r"pages: (\d+) rendered", said)[1]), int(
        re.search(r"fences: (\d+) run", said)[1]
    )


def test_an_edit_costs_what_it_changes_and_a_fault_leaves_what_is_served(serving):
    assert cost(serving.wait("Serving on")) == (4, 2)

    assert cost(serving.edit("other.md", "Prose of other", "New prose")) == (1, 0)
    assert "New prose" in serving.get("other.html")
    before = serving.get("index.html"), serving.get("third.html")
    assert "first" in before[0]

    assert cost(serving.edit("index.md", '"first"', '"second"')) == (1, 1)
    assert "second" in serving.get("index.html")

    for fault in ("[dead](#nowhere)", "[dead](absent.md)", "[[ran:ghost]]", "![](assets/x.svg)"):
        said = serving.edit("other.md", "New prose", f"Prose {fault}")
        assert "what is served is still the site as it was before this build" in said
        assert "New prose" in serving.get("other.html")
        serving.edit("other.md", f"Prose {fault}", "New prose")

    said = serving.edit("index.md", 'print("second")', "1 / 0")
    assert "ended with exit status 1" in said
    assert "second" in serving.get("index.html")
    assert cost(serving.edit("index.md", "1 / 0", 'print("second")')) == (1, 0)

    said = serving.edit("glossary.md", "A process's", "One process'")
    assert cost(said) == (4, 0)
    assert "One process" in serving.get("index.html")
