"""What a reader can take along: each fence as a file, and all of a module's programs in one zip.

Beside a module's page, `courses/pytorch/NN_stem.html`, a build writes

    NN_stem/ring.py       the fence with the id `ring`, to be started with torchrun
    NN_stem/NN_stem.zip   all of them, lab, training script, distlab (which some import), the pins

Two builds write the same bytes.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from press import fences
from press.executor import Execution
from press.fences import Fence
from press.modules import Module
from press.project import pinned_torch

EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time stamp of every file in a zip, so that its bytes do not depend on when it was built."""

README = """{module}: every program of the page

Needs Python 3.11 to 3.13. In a new environment:

    pip install -r requirements.txt -c constraints.txt
    python {module}.py --world-size 2
    torchrun --standalone --local-addr=127.0.0.1 --nproc_per_node=2 {script}.py

The first is the lab, the second a training script to take away: kill it, start it again.
Start what is in fences/ as its first line says; some are meant to fail or to hang, which that line
says too.
"""


def address(fence: Fence) -> str:
    """Return where a fence's file is, relative to its page; "" if it has none."""
    if not fence.id or fence.language not in fences.PYTHON or "source" not in fence.options:
        return ""
    return f"{PurePosixPath(fence.at.rpartition(':')[0]).stem}/{fence.id}.py"


def program(execution: Execution) -> str:
    """Return a fence as a file: how to start it and what to expect, then its text."""
    fence = execution.fence
    command = f"python {fence.id}.py"
    if fence.ranks > 1 or "init_process_group" in execution.code:
        command = f"torchrun --nproc_per_node={fence.ranks} {fence.id}.py"
    ending = ""
    if fence.hang:
        ending = "; it hangs, as it should: stop it with Ctrl-C"
    elif fence.raises or fence.returncode:
        ending = "; it fails, as it should"
    return f"# {command}{ending}\n{execution.code.rstrip()}\n"


def write(executions: Iterable[Execution], root: Path, public: Path) -> None:
    """Write the files of all pages, and the zips of those with a lab, into a built site."""
    pages: dict[Path, dict[str, str]] = {}
    for execution in executions:
        if name := address(execution.fence):
            page = Path(execution.fence.at.rpartition(":")[0]).relative_to("content")
            pages.setdefault(page, {})[Path(name).name] = program(execution)
    for page, files in pages.items():
        folder = public / page.with_suffix("")
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text)
        module = Module(page.stem, root)
        if module.lab.exists():
            _zip(folder / f"{page.stem}.zip", module, files)


def _zip(path: Path, module: Module, files: dict[str, str]) -> None:
    """Write one module's zip; everything in it is in a folder of the module's name."""
    root = module.root
    content = {f"fences/{name}": text.encode() for name, text in files.items()}
    for program in (module.lab, module.script):
        content[program.name] = program.read_bytes()
    for part in sorted((root / "code/distlab").rglob("*.py")):
        # Beside the fences, so that Python finds it without further ado.
        content[f"fences/{part.relative_to(root / 'code').as_posix()}"] = part.read_bytes()
    content["requirements.txt"] = f"torch=={pinned_torch(root)}\nnumpy\n".encode()
    content["constraints.txt"] = (root / "constraints.txt").read_bytes()
    names = {"module": module.stem, "script": module.script.stem}
    content["README.txt"] = README.format(**names).encode()
    write_zip(path, module.stem, content)


def write_zip(path: Path, folder: str, content: dict[str, bytes]) -> None:
    """Write files (name in `folder`, bytes) as a zip whose bytes depend on nothing else."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(content.items()):
            info = zipfile.ZipInfo(f"{folder}/{name}", EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            archive.writestr(info, data)
