"""One fence: its options, and the outcome that it declares.

A fence is a markdown-exec code block, as

    ```python exec="on" source="above" result="text" id="mean" ranks="4" timeout="30"

with markdown-exec's options and ours: `ranks`, `timeout`, `start`, `waits="on"` for a program that
mostly sleeps, `predict="on"` for an output that stays folded until the reader has predicted it, and
one of `raises`, `hang` and `returncode`, which declare an outcome other than success.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from pathlib import PurePath

from distlab.practice.tasks import ONLY
from distlab.spmd import MAX_RANKS, Program
from press import modules

PYTHON = ("python", "py")
SHELLS = {"bash": "bash", "sh": "sh", "console": "sh"}
OURS = ("ranks", "timeout", "raises", "hang", "start", "waits", "predict")
THEIRS = ("exec", "source", "result", "id", "idprefix", "html", "returncode", "title", "hl_lines",
          "linenums", "tabs", "updatetoc", "width")  # fmt: skip
PLAIN = ("title", "hl_lines", "linenums", "exec")
SOURCES = ("above", "below", "block", "console", "tabbed-left", "tabbed-right")
YES, NO = ("on", "yes", "true", "1"), ("off", "no", "false", "0")
REFUSED = {
    "session": "every fence is a program of its own; repeat what the program needs",
    "workdir": "every fence has a private working folder, with links to content, code and site",
}
OPTION = re.compile(r"""([A-Za-z][\w-]*)=(?:"([^"]*)"|'([^']*)')(?=\s|$|\})""")


class FenceError(ValueError):
    """A header that cannot mean what its author wants: the value, the rule, the next step."""


@dataclass(frozen=True)
class Fence:
    """A code block that asks to be executed.

    at:         "content/page.md:LINE" of its opening line
    language:   a key of SHELLS or one of PYTHON
    code:       its text; None while a snippet in it has not been expanded
    timeout:    seconds from the start of the ranks to the deadline
    raises:     text of the error that it declares, or ""
    hang:       seconds after which it declares to be stuck, or 0
    waits:      it mostly sleeps, so it may run beside programs that compute
    predict:    its output is folded; this changes nothing that runs
    returncode: the exit status that it declares
    options:    all options as written
    """

    at: str
    language: str
    code: str | None
    id: str = ""
    ranks: int = 1
    timeout: float = 60.0
    start: str = ""
    raises: str = ""
    hang: float = 0.0
    waits: bool = False
    predict: bool = False
    returncode: int = 0
    options: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The fence's id, or its place."""
        return self.id or self.at

    def program(self, code: str, links: tuple[tuple[str, str], ...] = ()) -> Program:
        """Return the program that runs `code` as this fence asks."""
        shell = SHELLS.get(self.language, "")
        return Program(
            code,
            ranks=self.ranks,
            timeout=self.hang or self.timeout,
            shell=shell,
            name="fence.sh" if shell else "fence.py",
            env=_surroundings(self.at, self.options),
            links=links,
            waits=self.waits or bool(self.hang),
            **({"start": self.start} if self.start else {}),
        )


def _surroundings(at: str, options: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """Return a fence's own environment: a module's page offers the exercises of that module."""
    width, module = options.get("width"), modules.number_of(PurePath(at).name)
    return ((("COLUMNS", width),) if width else ()) + (((ONLY, module),) if module else ())


def read_options(info: str) -> dict[str, str]:
    """Return the options of a header's text after the language. Raises FenceError."""
    rest = OPTION.sub("", info).strip()
    if rest:
        raise FenceError(f'cannot read {rest!r}; write every option as name="value"')
    options: dict[str, str] = {}
    for name, double, single in OPTION.findall(info):
        if name in options:
            raise FenceError(f"{name} stands twice; keep one")
        options[name] = double or single
    return options


def read_header(at: str, language: str, info: str, code: str | None) -> Fence | None:
    """Return the fence that a header asks for, None when it only shows code. Raises FenceError."""
    if info.lstrip().startswith("{"):
        return _refuse_execution_in_braces(info)
    options = read_options(info)
    if not _asks(options):
        _known(options, PLAIN, "a code block that is not executed")
        return None
    _known(options, THEIRS + OURS, "a fence")
    if language not in (*PYTHON, *SHELLS):
        known = ", ".join((*PYTHON, *SHELLS))
        raise FenceError(f"language {language!r} is not executed here; use one of {known}")
    if bad := [name for name, value in options.items() if '"' in value]:
        raise FenceError(f"{bad[0]} has a quotation mark in it; markdown-exec cannot carry it")
    if options.get("source", "above") not in SOURCES:
        raise FenceError(f"source={options['source']!r} is not one of {', '.join(SOURCES)}")
    _one_outcome(options)
    return _fence(at, language, options, code)


def _refuse_execution_in_braces(info: str) -> None:
    words = set(re.findall(r"[A-Za-z_]+(?==)", info))
    if words - {"title", "hl_lines", "linenums"}:
        raise FenceError(
            f"{info.strip()!r} is not executed: braces take no options of markdown-exec; "
            'write ```python exec="on" …'
        )


def _asks(options: dict[str, str]) -> bool:
    value = options.get("exec")
    if value is None:
        wanting = [name for name in options if name in OURS or name in ("source", "result")]
        if wanting:
            raise FenceError(f'{wanting[0]} asks for an execution; add exec="on"')
        return False
    if value not in YES + NO:
        raise FenceError(f'exec={value!r} is neither exec="on" nor exec="off"')
    return value in YES


def _known(options: dict[str, str], known: tuple[str, ...], where: str) -> None:
    for name in options:
        if name in REFUSED:
            raise FenceError(f"{name} makes no sense here: {REFUSED[name]}")
        if name not in known:
            near = difflib.get_close_matches(name, THEIRS + OURS, 1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
            raise FenceError(f"{name} is no option of {where}; {hint}")


def _one_outcome(options: dict[str, str]) -> None:
    declared = [name for name in ("raises", "hang", "returncode") if name in options]
    if len(declared) > 1:
        raise FenceError(f"{' and '.join(declared)} exclude each other; declare one outcome")
    if "hang" in options and "timeout" in options:
        raise FenceError("hang is the deadline; leave timeout out")
    if options.get("raises") == "":
        raise FenceError("raises is empty, so every error would match; quote a part of the error")


def _number(options: dict[str, str], name: str, kind: type, low: float, high: float) -> dict:
    if name not in options:
        return {}
    try:
        value = kind(options[name])
    except ValueError:
        value = None
    if value is None or not low <= value <= high:
        what = "a whole number" if kind is int else "a number of seconds"
        raise FenceError(f"{name}={options[name]!r} is not {what} from {low} to {high}")
    return {name: value}


def _switch(options: dict[str, str], name: str) -> bool:
    value = options.get(name, "off")
    if value not in YES + NO:
        raise FenceError(f'{name}={value!r} is neither {name}="on" nor {name}="off"')
    return value in YES


def _prediction(options: dict[str, str]) -> bool:
    asked = _switch(options, "predict")
    if asked and options.get("result") != "text":
        raise FenceError('predict folds an output of result="text"; add result="text"')
    return asked


def _fence(at: str, language: str, options: dict[str, str], code: str | None) -> Fence:
    start = options.get("start", "")
    if start not in ("", "fork", "fresh"):
        raise FenceError(f'start={start!r} is neither start="fork" nor start="fresh"')
    ranks = _number(options, "ranks", int, 1, MAX_RANKS)
    if language in SHELLS and (ranks or start):
        raise FenceError("a shell fence runs once; start ranks inside it, with torchrun")
    return Fence(
        at,
        language,
        code,
        id=options.get("id", ""),
        start=start,
        raises=options.get("raises", ""),
        waits=_switch(options, "waits"),
        predict=_prediction(options),
        options=options,
        **ranks,
        **_number(options, "timeout", float, 0.1, 600),
        **_number(options, "hang", float, 0.5, 60),
        **_number(options, "returncode", int, -64, 255),
    )


@dataclass(frozen=True)
class Problem:
    """One reason why a build fails; `str()` of it is its part of the report.

    at:    "content/page.md:LINE"
    what:  what was expected and what happened
    id:    the fence's id
    rank:  the rank to look at first, or None
    tail:  the last lines of that rank's output
    todo:  the next step
    """

    at: str
    what: str
    id: str = ""
    rank: int | None = None
    tail: str = ""
    todo: str = ""

    def __str__(self) -> str:
        where = f" (fence {self.id})" if self.id else ""
        where += "" if self.rank is None else f", rank {self.rank}"
        lines = [f"{self.at}{where}: {self.what}"]
        lines += [f"    | {line}" for line in self.tail.splitlines()]
        lines += [f"    -> {self.todo}"] if self.todo else []
        return "\n".join(lines)
