"""Every task of this repository. `nox -l` is the menu."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import nox

nox.needs_version = ">=2024.4.15"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.sessions = ["docs", "tests"]

PYTHONPATH = os.pathsep.join(str(Path(folder).resolve()) for folder in ("code", "site"))


def look_for(session: nox.Session, *needs: str, optional: bool = False) -> None:
    """End, or skip, in a sentence if this machine lacks what is needed and cannot be installed."""
    command = [sys.executable, "-I", "site/tools/needs.py", *needs]
    looked = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if looked.returncode:
        (session.skip if optional else session.error)(looked.stdout.strip())


def prepare(session: nox.Session, environment: str) -> dict[str, str | None]:
    """Install an environment at the locked versions; return the variables its commands need."""
    if environment != "lint":
        look_for(session, "build")
    session.install("-r", f"requirements/{environment}.txt", "-c", "constraints.txt")
    return variables()


def variables() -> dict[str, str | None]:
    """Return the variables that the commands of every session need."""
    return {
        "PYTHONPATH": PYTHONPATH,
        "NO_MKDOCS_2_WARNING": "1",
        # Some shells forbid it; without bytecode each import of torch compiles sympy anew.
        "PYTHONDONTWRITEBYTECODE": None,
        # Whoever is started with this ends with us, however we end (distlab.spmd.processes).
        "DISTLAB_PARENT": str(os.getpid()),
    }


@nox.session
def docs(session: nox.Session) -> None:
    """Build the course into public/, running its fences (-- --fresh: also those in the cache)."""
    env = prepare(session, "docs")
    arguments = [word for word in session.posargs if word != "--fresh"]
    if "--fresh" in session.posargs:
        env["FENCE_FRESH"] = "1"
    session.run("mkdocs", "build", *arguments, env=env)
    session.log("the course is in public/: open public/index.html, or run `nox -s serve`")


@nox.session
def serve(session: nox.Session) -> None:
    """Show the course on 127.0.0.1 and build it again at each change (-- mkdocs' own options)."""
    session.run("mkdocs", "serve", *session.posargs, env=prepare(session, "docs"))


@nox.session
def tests(session: nox.Session) -> None:
    """Run every fence and every test without a session of its own (-- --quick, -- for pytest)."""
    env = prepare(session, "tests")
    # Most tests wait for processes of their own, so two files at a time take little longer.
    # In the order of the files the long ones come first and short ones fill up the end.
    together = ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder")
    chosen = ("-m", "not browser and not hosts and not engines")
    session.run("pytest", *chosen, *together, *session.posargs, env=env)


@nox.session
def browser(session: nox.Session) -> None:
    """Open every page of public/ in Chromium: search, keyboard, axe, widths (builds it first)."""
    look_for(session, "browser")
    env = prepare(session, "browser") | {"BROWSER_REQUIRED": "1"}
    session.run("mkdocs", "build", "--quiet", env=env)
    session.run(
        "pytest", "-m", "browser", "-n", "2", "--dist", "worksteal", *session.posargs, env=env
    )


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and format with ruff (-- --fix mends what can be mended)."""
    prepare(session, "lint")
    if "--fix" in session.posargs:
        session.run("ruff", "check", "--fix", ".")
        session.run("ruff", "format", ".")
    else:
        session.run("ruff", "check", ".")
        session.run("ruff", "format", "--check", ".")


@nox.session
def bench(session: nox.Session) -> None:
    """Compare builds, fences and the lab with their plain counterparts (-- --rounds 5)."""
    session.run("python", "-m", "tools.bench", *session.posargs, env=prepare(session, "tests"))


@nox.session
def mutate(session: nox.Session) -> None:
    """Break each executed claim on purpose: the build must refuse every mutant (-- --fence ID)."""
    session.run("python", "-m", "tools.mutate", *session.posargs, env=prepare(session, "tests"))


@nox.session
def soak(session: nox.Session) -> None:
    """Repeat lab, cold build and exercise checks under kills and load (-- --rounds 50 --seed 1)."""
    look_for(session, "soak")
    env = prepare(session, "tests")
    out = session.create_tmp()
    env["TMPDIR"] = None  # that folder's path is too long for a fork server's socket
    session.run("python", "-m", "soak", "--out", out, *session.posargs, env=env)
    if "--round" not in session.posargs:  # two tests are too long for every day
        session.run(
            "pytest",
            "site/tests/modules/test_museum.py",
            "-k",
            "more_often",
            env=env | {"SOAK": "1"},
        )


@nox.session
def hosts(session: nox.Session) -> None:
    """Record the page Launching again on two hosts of namespaces (-- NAME ...), then its tests."""
    look_for(session, "hosts")
    env = prepare(session, "tests")
    session.run("python", "-m", "record.launching", *session.posargs, env=env)
    if not session.posargs:
        session.run("pytest", "-m", "hosts", env=env)


@nox.session
def tally(session: nox.Session) -> None:
    """Count anew how often the museum's races break, in many runs of each (-- NAME ...)."""
    session.run("python", "-m", "record.tally", *session.posargs, env=prepare(session, "tests"))


@nox.session
def drift(session: nox.Session) -> None:
    """Record what differs under other versions of torch (-- 2.13.0 2.14.1; --fresh: all anew)."""
    versions = [word for word in session.posargs if word != "--fresh"]
    if bad := [word for word in versions if not re.fullmatch(r"\d+\.\d+\.\d+", word)]:
        session.error(f"{bad[0]!r} is no version of torch; write it in full, as 2.13.0")
    if not versions:
        session.error("name the versions of torch to record, as: nox -s drift -- 2.13.0 2.14.1")
    look_for(session, "drift")
    session.virtualenv.create()
    installable = [version for version in versions if can_install(session, version)]
    if missing := [version for version in versions if version not in installable]:
        session.warn(f"skipped, because the package index has none: torch {', '.join(missing)}")
    for version in installable:
        record_version(session, version)


def can_install(session: nox.Session, version: str) -> bool:
    """Tell whether the package index has a version, and what it asks for, for this Python."""
    try:
        session.install("--dry-run", "--quiet", f"torch=={version}")
    except nox.command.CommandFailed:
        return False
    return True


def record_version(session: nox.Session, version: str) -> None:
    """Record one version in an environment of its own."""
    session.virtualenv.create()  # made anew, so nothing of another version stays
    locked = Path("constraints.txt").read_text().splitlines()
    # Not in create_tmp(): that would be TMPDIR as well, too long a path for a fork server's socket.
    constraints = Path(session.virtualenv.location, "constraints.txt")
    # What torch brings along is pinned for one version of torch, so that goes with it.
    others = [line for line in locked if not re.match("torch|triton|nvidia-", line)]
    constraints.write_text("\n".join(others))
    session.log(f"installing torch {version}, which takes up to 7 GB and some minutes")
    session.install(f"torch=={version}", "numpy", "rich", "-c", str(constraints))
    fresh = ["--fresh"] if "--fresh" in session.posargs else []
    session.run("python", "-m", "record.drift", *fresh, env=variables())


ENGINES = ("slurm", "ray", "kubernetes")
"""With what the names of the page's scenarios begin, and of what each kind needs."""


@nox.session
def engines(session: nox.Session) -> None:
    """Record the page on engines again: submit to Slurm and Ray (-- NAME ...), then its tests."""
    asked = {name.partition("-")[0] for name in session.posargs} & set(ENGINES)
    look_for(session, *(asked or ENGINES), optional=True)
    try:
        env = prepare(session, "engines")
    except nox.command.CommandFailed:
        session.skip("Ray or py-spy cannot be installed here: is the package index within reach?")
    # In the worlds nothing writes bytecode, and without it each start of Ray compiles for minutes.
    session.run("python", "-c", "import torch._dynamo, ray.train.torch", env=env)
    session.run("python", "-m", "record.engines", *session.posargs, env=env)
    if not session.posargs:
        session.run("pytest", "-m", "engines", env=env)


@nox.session
def zensical(session: nox.Session) -> None:
    """Build the same content with Zensical, and hold the gate against it as a command."""
    env = prepare(session, "docs")
    # 0.1 needs a package that its index does not have; without Zensical this is skipped aloud.
    try:
        session.install("zensical<0.1", "-c", "constraints.txt")
    except nox.command.CommandFailed:
        session.skip("zensical<0.1 cannot be installed here")
    session.run("python", "-m", "tools.zensical_build", *session.posargs, env=env)


@nox.session
def lock(session: nox.Session) -> None:
    """Resolve requirements/*.txt into constraints.txt, for every system and Python we support."""
    session.install("uv")
    session.run(
        "uv", "pip", "compile",
        *map(str, sorted(Path("requirements").iterdir())),
        "--universal", "--python-version", "3.11", "--upgrade",
        "--no-annotate", "--no-header", "--no-emit-index-url", "--no-emit-find-links",
        "--output-file", "constraints.txt", "--quiet",
    )  # fmt: skip
