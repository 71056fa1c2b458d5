"""Every task of this repository. `nox -l` is the menu."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import nox

nox.needs_version = ">=2024.4.15"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.sessions = ["docs", "tests"]

PYTHONPATH = "code"


def prepare(session: nox.Session, environment: str) -> dict[str, str | None]:
    """Install an environment at the locked versions; return the variables its commands need."""
    session.install("-r", f"requirements/{environment}.txt", "-c", "constraints.txt")
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
    """Run every fence and every test but those of the browser and of two hosts (-- for pytest)."""
    env = prepare(session, "tests")
    # Most tests wait for processes of their own, so two files at a time take little longer.
    together = ("-n", "2", "--dist", "loadfile")
    session.run("pytest", "-m", "not browser and not hosts", *together, *session.posargs, env=env)


@nox.session
def browser(session: nox.Session) -> None:
    """Open every page of public/ in Chromium: search, keyboard, axe, widths (builds it first)."""
    env = prepare(session, "browser") | {"BROWSER_REQUIRED": "1"}
    if not shutil.which("chromium") and shutil.which("apt-get") and os.geteuid() == 0:
        session.run("apt-get", "-qq", "update", external=True)
        session.run("apt-get", "-qq", "install", "--yes", "chromium", external=True)
    session.run("mkdocs", "build", "--quiet", env=env)
    session.run("pytest", "-m", "browser", *session.posargs, env=env)


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
    session.run("python", "site/bench.py", *session.posargs, env=prepare(session, "tests"))


@nox.session
def mutate(session: nox.Session) -> None:
    """Break each executed claim on purpose: the build must refuse every mutant (-- --fence ID)."""
    session.run("python", "site/mutate.py", *session.posargs, env=prepare(session, "tests"))


@nox.session
def soak(session: nox.Session) -> None:
    """Repeat lab, cold build and exercise checks under kills and load (-- --rounds 50 --seed 1)."""
    env = prepare(session, "tests")
    out = session.create_tmp()
    env["TMPDIR"] = None  # that folder's path is too long for a fork server's socket
    session.run("python", "site/soak.py", "--out", out, *session.posargs, env=env)
    if "--round" not in session.posargs:  # two tests are too long for every day
        session.run("pytest", "site/test_museum.py", "-k", "more_often", env=env | {"SOAK": "1"})


@nox.session
def hosts(session: nox.Session) -> None:
    """Record the page Launching again, on two hosts made of network namespaces (Linux)."""
    session.run("python", "site/hosts.py", *session.posargs, env=prepare(session, "tests"))


@nox.session
def zensical(session: nox.Session) -> None:
    """Build the same content with Zensical, and hold the gate against it as a command."""
    env = prepare(session, "docs")
    # 0.1 needs a package that its index does not have; without Zensical this is skipped aloud.
    try:
        session.install("zensical<0.1", "-c", "constraints.txt")
    except nox.command.CommandFailed:
        session.skip("zensical<0.1 cannot be installed here")
    session.run("python", "site/zensical_build.py", *session.posargs, env=env)


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
