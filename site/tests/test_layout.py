"""The repository keeps its own rules: the traps of this layout, and what the README promises."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
import yaml

from tools.site_copy import ROOT

HERE = "site/ and code/ share their names with modules of the standard library"


def tracked() -> list[str]:
    """Return the files that git knows."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    return listed.stdout.split()


@pytest.mark.parametrize("folder", ["site", "code"])
def test_no_package_shadows_the_standard_library(folder):
    assert not (ROOT / folder / "__init__.py").exists(), HERE
    command = [sys.executable, "-c", f"import {folder}, pdb; print({folder}.__file__)"]
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, env=env)

    assert str(ROOT) not in found.stdout


def test_mkdocs_never_writes_into_the_folder_of_the_tests():
    class Loader(yaml.SafeLoader):
        """Reads mkdocs.yml, whose own tags mean nothing here."""

    Loader.add_multi_constructor("!", lambda loader, tag, node: None)
    config = yaml.load((ROOT / "mkdocs.yml").read_text(), Loader)  # noqa: S506 -- a SafeLoader

    assert (config["docs_dir"], config["site_dir"]) == ("content", "public")


def test_no_file_names_an_address_of_a_registry_or_a_path_of_one_machine():
    hosts = r"files\.pythonhosted|pypi\.org|registry\.npmjs"
    private = re.compile(rf"{hosts}|/root/|/work/(?:main|shared|\.)")
    bad = [
        name
        for name in tracked()
        if not name.endswith((".woff2", ".png")) and name != "site/tests/test_layout.py"
        and not (ROOT / name).is_symlink()
        and private.search((ROOT / name).read_text(errors="replace"))
    ]  # fmt: skip

    assert bad == []
    assert "http" not in (ROOT / "constraints.txt").read_text()


def test_every_requirement_is_locked():
    locked = set(re.findall(r"(?m)^([\w.-]+)==", (ROOT / "constraints.txt").read_text()))
    wanted = {
        match[1].lower()
        for path in (ROOT / "requirements").glob("*.txt")
        for match in re.finditer(r"(?m)^([A-Za-z][\w.-]*)", path.read_text())
    }

    assert "torch==2.8.0" in (ROOT / "constraints.txt").read_text()
    assert {"torch", "mkdocs", "pytest"} <= wanted
    assert wanted - locked == set()


def drawn(text: str) -> set[str]:
    """Return the paths of the tree that a text draws, two levels deep."""
    block, paths, folder = text.partition("```text\n")[2].partition("```")[0], set(), ""
    for indent, name in re.findall(r"(?m)^( *)(\S+)", block):
        folder = folder if indent else name.rstrip("/")
        paths.add(f"{folder}/{name.rstrip('/')}" if indent else folder)
    return paths


def test_the_readme_draws_the_tree_there_is():
    on_disk = {"/".join(name.split("/")[:depth]) for name in tracked() for depth in (1, 2)}
    # Every module adds its test, so these are one line.
    on_disk = {re.sub(r"test_pytorch_\w+", "test_pytorch_*", path) for path in on_disk}

    assert drawn((ROOT / "README.md").read_text()) == on_disk - {".gitignore"}


def test_the_readme_names_every_session():
    sessions = re.findall(r"(?m)^@nox\.session.*\ndef (\w+)", (ROOT / "noxfile.py").read_text())
    text = (ROOT / "README.md").read_text()

    assert [name for name in sessions if f"`nox -s {name}" not in text] == []


def test_a_module_of_the_library_imports_no_torch_by_itself():
    """A warm build reads pages and cached outcomes; torch would cost it seconds."""
    code = "import sys, press.build; sys.exit('torch' in sys.modules)"
    env = os.environ | {"PYTHONPATH": f"{ROOT}/code:{ROOT}/site"}

    assert subprocess.run([sys.executable, "-c", code], env=env, check=False).returncode == 0
