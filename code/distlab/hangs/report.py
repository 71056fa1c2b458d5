"""Say in plain sentences what the dumps of a job tell; draws nothing, runs nothing."""

from __future__ import annotations

import shutil
import textwrap
from pathlib import Path

from distlab.hangs import compare
from distlab.hangs.compare import Difference, Findings
from distlab.hangs.dumps import Call, Folder, Frame, RankDump, Standing, printable, program_lines
from distlab.spmd.rank_names import grouped

WIDEST = 88
"""Columns of a report, at most; fewer where the terminal, or COLUMNS, has fewer."""


def report(folder: Folder, findings: Findings) -> list[str]:
    """Return the paragraphs of the whole report: complaints, differences, every rank, suspects."""
    parts = [*folder.complaints, *_missing(folder), *_differences(folder, findings)]
    parts += [_crossing(folder, crossing) for crossing in findings.crossings]
    parts += ["Every rank:", *_every_rank(folder, findings), *_others(folder)]
    parts += _suspects(folder, findings)
    return [wrap(part) for part in parts]


def wrap(text: str) -> str:
    """Break a paragraph; what follows its first line is indented under it."""
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    return textwrap.fill(
        text,
        max(40, min(WIDEST, shutil.get_terminal_size().columns)),
        subsequent_indent=indent if text.startswith(" ") else "",
        break_long_words=False,
        break_on_hyphens=False,
    )


def frame_text(frame: Frame) -> str:
    """Return "train.py:30", as a path from here where the file lies below."""
    path = Path(frame.file)
    here = Path.cwd()
    shown = path.relative_to(here) if path.is_relative_to(here) else path
    return printable(f"{shown}:{frame.line}")


def lines_text(lines: tuple[Frame, ...], note: str = "") -> str:
    """Return "train.py:30 in step (note), called from train.py:50"."""
    if not lines:
        return "an unknown line"
    first, *callers = lines
    # The line that calls main() tells nothing.
    callers = [frame_text(frame) for frame in callers[:4] if frame.name != "<module>"]
    note = f" ({note})" if note else ""
    called = f", called from {' from '.join(callers)}" if callers else ""
    return f"{frame_text(first)} in {printable(first.name)}{note}{called}"


def call_text(call: Call) -> str:
    """Return "all_reduce of [4] Float"."""
    sizes = " and ".join(str(list(size)) if size else "a scalar" for size in call.inputs[:3])
    sizes += " and more" if len(call.inputs) > 3 else ""
    of = f" of {sizes} {printable(call.dtypes[0])}" if sizes and call.dtypes else ""
    return printable(call.op) + of


def group_text(folder: Folder, group: str) -> str:
    """Return "the default group" or what a rank told of the group."""
    if group == compare.DEFAULT_GROUP:
        return "the default group"
    about = next((d.standing.groups[group][0] for d in folder.ranks
                  if d.standing and group in d.standing.groups), "")  # fmt: skip
    name = f'"{printable(about)}"' if about not in ("", "undefined") else printable(group)
    return f"group {name} of {grouped(compare.members(folder, group))}"


def _missing(folder: Folder) -> list[str]:
    sentences = []
    if folder.missing:
        sentences.append(f"Nothing was found of {grouped(folder.missing)}.")
    blind = [dump.rank for dump in folder.ranks if dump.calls is None]
    if blind:
        sentences.append(f"No dump could be read of {grouped(blind)}: its calls are not known.")
    return sentences


def _differences(folder: Folder, findings: Findings) -> list[str]:
    if findings.differences:
        first, *further = (_difference(folder, each) for each in findings.differences)
        return ["First difference: " + first, *("Also: " + text for text in further)]
    if findings.nameless:
        return [
            "The dumps were not compared: under TORCH_DISTRIBUTED_DEBUG=DETAIL the recorder names "
            "no group, and notes the checker's own calls among the program's. Run it without."
        ]
    if not (findings.pending or findings.last_done):
        return [
            "The recorder noted no collective: none was called yet, or TORCH_FR_BUFFER_SIZE was "
            "not set when the process started. It notes no send, recv and new_group."
        ]
    if findings.pending:
        return [
            "No difference: every rank issued the same collectives, and some have not ended. "
            "Look at the network, at slow ranks, and at what is not noted: the reduce operation, "
            "the source rank, send and recv."
        ]
    return ["No difference: every rank issued the same collectives, and all of them have ended."]


def _difference(folder: Folder, difference: Difference) -> str:
    text = f"collective {difference.seq} of {group_text(folder, difference.group)}."
    for camp in difference.camps:
        call = difference.calls[camp[0]]
        lines = dict.fromkeys(lines_text(difference.calls[rank].lines) for rank in camp)
        text += f" {grouped(camp).capitalize()} issued {call_text(call)}, from "
        text += ", and from ".join(lines) + "."
    if difference.absent:
        text += f" {grouped(difference.absent).capitalize()} never arrived."
    for rank, left_out in difference.skipped.items():
        text += (
            f" What rank {rank} issued follows, on the others, the {printable(left_out.op)} from "
            f"{lines_text(left_out.lines[:1])}: rank {rank} left that call out."
        )
    return text


def _crossing(folder: Folder, crossing: Difference) -> str:
    by_line: dict[str, list[int]] = {}
    for rank, call in crossing.calls.items():
        by_line.setdefault(lines_text(call.lines), []).append(rank)
    lines = "; ".join(f"{grouped(ranks)} from {line}" for line, ranks in by_line.items())
    return (
        f"Note: collective {crossing.seq} of {group_text(folder, crossing.group)} was issued alike "
        f"from different lines: {lines}. That may be meant; if it is not, tensors that do not "
        "belong together were combined there, without an error."
    )


def _every_rank(folder: Folder, findings: Findings) -> list[str]:
    by_text: dict[str, list[int]] = {}
    for dump in folder.ranks:
        by_text.setdefault(_rank(folder, findings, dump), []).append(dump.rank)
    return [f"  {grouped(ranks)}: {text}." for text, ranks in by_text.items()]


def _rank(folder: Folder, findings: Findings, dump: RankDump) -> str:
    pending, done = findings.pending.get(dump.rank), findings.last_done.get(dump.rank)
    if pending:
        text = f"waiting in {_numbered(folder, pending)}, from {lines_text(pending.lines)}"
    elif findings.nameless:
        text = "not compared"
    else:
        text = "no dump" if dump.calls is None else "in no collective"
    standing = dump.standing
    if standing and standing.ended:
        text += "; ended by itself"
    elif standing and not (pending and _same_line(pending, standing)):
        text += f"; {'at work' if standing.busy else 'standing'} {_place(standing.stack)}"
    if done:
        text += f"; the last that ended: {_numbered(folder, done)}"
    return text


def _others(folder: Folder) -> list[str]:
    return [
        f"  {printable(other.command)}, in no process group: {_place(other.stack)}."
        for other in folder.others
        if any(frame.is_program for frame in other.stack)
    ]


def _numbered(folder: Folder, call: Call) -> str:
    of = "" if call.group == compare.DEFAULT_GROUP else f" of {group_text(folder, call.group)}"
    return f"collective {call.seq}{of}, {call_text(call)}"


def _same_line(call: Call, standing: Standing) -> bool:
    own = program_lines(standing.stack)
    return bool(own and call.lines) and (own[0].file, own[0].line) == (
        call.lines[0].file,
        call.lines[0].line,
    )


def _place(stack: tuple[Frame, ...]) -> str:
    if not stack:
        return "at an unknown line"
    lines = program_lines(stack)
    note = printable(lines[0].text)
    inside = [f.name for f in stack[: stack.index(lines[0])] if f.name not in ("wrapper", "wait")]
    if inside and inside[-1] not in note:
        note += f"{', ' if note else ''}inside {printable(inside[-1])}"
    return f"at {lines_text(lines, note)}"


def _suspects(folder: Folder, findings: Findings) -> list[str]:
    suspects = findings.suspects or folder.missing
    if not suspects and findings.apart:
        return [f"By the stacks, look first at {grouped(findings.apart)}."]
    if not suspects:
        return []
    first = findings.differences[0] if findings.differences else None
    if first and not first.absent and len(suspects) == len(first.calls):
        return [f"Look at {grouped(suspects)}: no majority tells which of them is wrong."]
    return [f"Look first at {grouped(suspects)}."]
