"""What ranks print, made fit for a page: the same in every build, and short.

gloo's connection lines are dropped; ports, process ids, addresses, time stamps and paths, which
differ from run to run, are replaced; stacks lose the frames of the runner.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from distlab.spmd import rank_names

ROOT = Path(__file__).parents[3]

DROPPED = re.compile(
    r"^\[Gloo\] Rank \d+ is connected to \d+ peer ranks\. Expected number of connected peer ranks"
    r" is : \d+\n?",
    re.MULTILINE,
)

# Private folder of the run, then the interpreter's folders, then the project.
PATHS = re.compile(
    r"(?:/[^\s'\":,()]*)?/distlab-[^/\s]+/\d+/(?:work/)?"
    r"|(?:/[^\s'\":,()]*)?/site-packages/"
    rf"|{re.escape(str(Path(sys.base_prefix) / 'lib'))}/"
    rf"|{re.escape(sys.prefix)}/"
    rf"|{re.escape(str(ROOT))}/"
)

# torch's excepthook puts the rank before every line; the page's own label says it already.
RANK_PREFIX = re.compile(r"^\[rank\d+\]: ?", re.MULTILINE)

REPLACED = (
    (PATHS, ""),
    (RANK_PREFIX, ""),
    # glog and torchrun stamps: [W1130 01:22:43.345678 socket.cpp:12], W1130 01:22:43.345000 77 …
    (re.compile(r"\b([IWEF])\d{4} \d\d:\d\d:\d\d\.\d+ (?:\d+ )?"), r"\1 "),
    (re.compile(r"\d{4}-\d\d-\d\d[ T_]\d\d:\d\d:\d\d(?:[.,]\d+)?"), "TIME"),
    (re.compile(r"(\[?(?:127\.0\.0\.1|::1|localhost)\]?[:,] ?)\d{2,5}\b"), r"\1PORT"),
    (re.compile(r"(\bport(?: |: |=))\d{2,5}\b"), r"\1PORT"),
    (re.compile(r"(\bMASTER_PORT\b['\"]?(?:=|: ?| )['\"]?)\d+"), r"\1PORT"),
    (re.compile(r"(\bpid(?:=|: ?| ))\d+", re.IGNORECASE), r"\1PID"),
    (re.compile(r"(\blocal_rank: \d+ \(pid: )\d+"), r"\1PID"),
    (re.compile(r"(\([\w.:-]+, )\d{4,5}\)"), r"\1PORT)"),
    (re.compile(r"\b0x[0-9a-f]{6,}\b"), "0xADDRESS"),
    # Which words gloo has for a peer that is gone depends on how far the bytes had come.
    (re.compile(r"(?:/[\w.-]+)*/pytorch/third_party/gloo/"), ""),
    (
        re.compile(
            r"\[gloo/transport/tcp/pair\.cc:\d+\] (?:Connection closed by peer (\[\S+\]:PORT)"
            r"|Read error (\[\S+\]:PORT): Connection reset by peer)"
        ),
        r"[gloo/transport/tcp/pair.cc] Connection closed by peer (or reset by peer) \1\2",
    ),
    (
        re.compile(r"(unbound_buffer\.cc):\d+(\] Timed out waiting \d+ms for) (?:recv|send)"),
        r"\1\2 recv (or send)",
    ),
)

FRAMES_OF_TORCH = re.compile(r'(?:  File "torch/[^"]+", line \d+, in .+\n(?:    .*\n)*)+')
FRAME = re.compile(r'^  File "(?P<path>[^"]+)", line (?P<line>\d+) in (?P<name>.+)$', re.MULTILINE)
RUNNER = ("distlab/spmd/", "<frozen ")


def normalise(text: str) -> str:
    """Return what a rank wrote without what differs from run to run."""
    text = DROPPED.sub("", text)
    for pattern, replacement in REPLACED:
        text = pattern.sub(replacement, text)
    # Markdown keeps its own marks between these two control characters.
    return text.replace("\x02", "\N{SYMBOL FOR START OF TEXT}").replace(
        "\x03", "\N{SYMBOL FOR END OF TEXT}"
    )


def without_torch(text: str) -> str:
    """Return normalised text whose tracebacks count torch's own frames instead of showing them."""

    def count(match: re.Match) -> str:
        frames = match[0].count('  File "torch/')
        return f"  … {frames} frame{'s' * (frames != 1)} in torch\n"

    return FRAMES_OF_TORCH.sub(count, text)


def where_it_stood(stack: str, source: str = "") -> str:
    """Return the frames of a stack that faulthandler wrote, outermost first, without our own.

    `source` is the program's text, whose lines are shown with its frames.
    """
    frames = [
        _frame(normalise(match["path"]), int(match["line"]), match["name"], source.splitlines())
        for match in FRAME.finditer(stack)
        if not any(part in match["path"] for part in RUNNER)
    ]
    return "\n".join(reversed(frames))


def _frame(path: str, line: int, name: str, source: list[str]) -> str:
    text = f"  {path}, line {line}, in {name}"
    if path == "fence.py" and line <= len(source):
        text += f": {source[line - 1].strip()}"
    return text


def last_error(stderr: str) -> str:
    """Return the error that a traceback ends with, all its lines; else the last line."""
    stderr = RANK_PREFIX.sub("", stderr)
    _, found, last = stderr.rpartition("Traceback (most recent call last):\n")
    if found:
        lines = last.splitlines()
        start = next((i for i, line in enumerate(lines) if line[:1].strip()), 0)
        return "\n".join(lines[start:])
    lines = stderr.strip().splitlines()
    return lines[-1] if lines else ""


def fold(rank_texts: list[str]) -> list[tuple[str, str]]:
    """Return pairs (label, text) in rank order, equal neighbours folded into one.

    Labels are "rank 0" and "ranks 0-3"; a rank that said nothing is left out.
    """
    folded: list[list] = []
    for rank, text in enumerate(rank_texts):
        if folded and folded[-1][2] == text:
            folded[-1][1] = rank
        else:
            folded.append([rank, rank, text])
    return [(rank_names.row(first, last), text) for first, last, text in folded if text.strip()]
