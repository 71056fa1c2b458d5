"""Every session looks first for what it needs, and installs it or says what is missing."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections import namedtuple

import pytest

from press.project import ROOT
from tools import needs

NOXFILE = ast.parse((ROOT / "noxfile.py").read_text())
SESSIONS = {
    node.name: node
    for node in NOXFILE.body
    if isinstance(node, ast.FunctionDef) and node.decorator_list
}
NEEDY = {"browser", "hosts", "engines", "soak", "drift"}
"""Sessions that need more of the machine than an environment, for which `prepare` looks."""

WITHOUT_TORCH = {"lock"}
"""Sessions that install nothing of the course, and need only the package index."""
USERS = ("unshare", "nsenter", "ip", "nft", "true", "python3")


@pytest.fixture
def path(tmp_path, monkeypatch):
    """Let the only folder on PATH be one with the programs that two hosts need, as a user's."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in USERS:
        (folder / name).symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    return folder


def said(*names: str) -> tuple[int, str]:
    """Return exit status and words of the command that nox calls, by nox's own interpreter."""
    done = subprocess.run(
        [sys.executable, "-I", needs.__file__, *names], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout


def test_a_machine_that_has_everything_is_told_nothing(path):
    assert needs.lacking("hosts") == ""
    assert said("hosts", "ray", "kubernetes") == (0, "")


@pytest.mark.parametrize(
    ("gone", "package"), [("nft", "nftables"), ("ip", "iproute2"), ("nsenter", "util-linux")]
)
def test_what_two_hosts_lack_is_named_with_how_to_get_it(path, gone, package):
    (path / gone).unlink()
    status, sentence = said("hosts")

    assert status == 1
    assert sentence.startswith(f"hosts: {gone} not installed: apt-get install {package} ")
    assert len(sentence.splitlines()) == 1


def test_a_missing_browser_is_named_unless_another_is(path, monkeypatch):
    assert "chromium not installed: apt-get install chromium" in needs.lacking("browser")

    monkeypatch.setenv("CHROMIUM", str(path / "true"))
    assert needs.lacking("browser") == ""


def test_namespaces_that_the_kernel_refuses_are_told_in_its_words(path):
    (path / "unshare").unlink()
    (path / "unshare").write_text("#!/bin/sh\necho 'unshare failed: not permitted' >&2\nexit 1\n")
    (path / "unshare").chmod(0o755)

    lack = needs.lacking("hosts")
    assert "lets no user make namespaces (unshare failed: not permitted)" in lack


def test_slurm_asks_for_root_and_then_for_its_daemons(path, monkeypatch):
    assert "needs the right of root" in needs.lacking("slurm")

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    lack = needs.lacking("slurm")
    assert lack.startswith("slurmctld, slurmd, srun, munged not installed: apt-get install munge ")


@pytest.mark.parametrize(
    ("user", "systemd", "installed"),
    [(0, False, True), (1000, False, False), (0, True, False)],
    ids=["as root", "as a user", "where systemd would start the daemons"],
)
def test_what_is_missing_is_installed_where_that_may_be(
    path, monkeypatch, user, systemd, installed
):
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(needs, "SYSTEMD", path if systemd else path / "none")
    for name in ("touch", "sh"):
        (path / name).symlink_to(f"/bin/{name}")
    programs = " ".join(str(path / name) for name in needs.SLURM)
    (path / "apt-get").write_text(f"#!/bin/sh\ntouch {programs}\nchmod 755 {programs}\n")
    (path / "apt-get").chmod(0o755)
    (path / "chmod").symlink_to("/bin/chmod")

    assert needs.main(["slurm"]) == int(not installed)


def test_the_disk_must_have_room_for_torch(tmp_path, monkeypatch):
    usage = namedtuple("Usage", "total used free")
    monkeypatch.setattr(needs, "ROOT", tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(9e9, 7e9, 2e9))
    assert "torch takes 8 GB and 2.0 GB are free" in needs.lacking("build")

    monkeypatch.setenv("UV_TORCH_BACKEND", "cpu")
    assert needs.lacking("build") == ""
    monkeypatch.delenv("UV_TORCH_BACKEND")

    (tmp_path / ".nox/docs/lib/python3.11/site-packages/torch").mkdir(parents=True)
    assert needs.lacking("build") == ""
    assert "8 GB" in needs.lacking("drift")


def test_elsewhere_than_on_linux_that_is_said_first(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")

    assert [name for name in needs.NEEDS if "needs Linux" in needs.lacking(name)] == [
        "hosts", "slurm", "ray", "kubernetes", "soak",
    ]  # fmt: skip


@pytest.mark.parametrize("name", SESSIONS)
def test_a_session_looks_before_it_installs_or_runs_anything(name):
    """Before the first second of work: looking is the first thing that is called."""
    calls = [
        (node.lineno, node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id)
        for node in ast.walk(SESSIONS[name])
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name)
    ]
    works = {"install", "run", "create", "can_install", "record_version"}
    first = min(((line, call) for line, call in calls if call in works | {"look_for", "prepare"}))

    if name in WITHOUT_TORCH:
        assert first[1] == "install"
    else:
        assert first[1] == ("look_for" if name in NEEDY else "prepare")


def test_every_need_is_one_that_the_noxfile_looks_for():
    text = (ROOT / "noxfile.py").read_text()
    engines = re.search(r"ENGINES = \(([^)]*)\)", text)[1]
    looked_for = {*re.findall(r'look_for\(session, "(\w+)"', text), *re.findall(r"\w+", engines)}

    assert looked_for == set(needs.NEEDS)


def test_an_unknown_need_is_refused_with_the_known_ones(capsys):
    assert needs.main(["hosts", "chromum"]) == 2
    assert capsys.readouterr().out.startswith("'chromum' is no session's need; known are ")
