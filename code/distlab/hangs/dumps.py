"""Read what stuck ranks left: Flight Recorder dumps, and where each rank stood.

A dump is untrusted input: it may come from another machine, be cut short, or be no dump at all.
A folder holds for rank N

    rank_N.pickle   the bytes of `torch._C._distributed_c10d._dump_fr_trace()`
    rank_N.json     where the rank stood, written by `distlab.hangs.watch`; it may be missing

Other names with a number at their end, as `nccl_trace_rank_3`, are read as pickles too.
"""

from __future__ import annotations

import io
import json
import pickle
import pickletools
import re
from dataclasses import dataclass, field
from pathlib import Path

MAX_BYTES = 64 << 20
"""A file larger than this is no dump: the recorder keeps a bounded number of calls."""

MOST = 256
"""Of a call, so many tensors and frames are read: a pickle can name one list a million times."""

LONGEST = 300
"""Characters of a file's text that are shown."""

# All that torch's pickler writes for plain data. Others import, call, or allocate what they like.
PLAIN = (
    "PROTO STOP MARK NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINFLOAT BINUNICODE "
    "EMPTY_LIST APPEND APPENDS EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_DICT SETITEM "
    "SETITEMS BINGET LONG_BINGET BINPUT LONG_BINPUT"
)
NUMBERED = re.compile(r"rank[_-]?(\d+)|(\d+)(?:\.\w+)?$")
LIBRARY = re.compile(
    r"[/\\](?:site|dist)-packages[/\\]|[/\\]python3\.\d+[/\\]|^<(?:frozen |string>)"
)
OURS = re.compile(r"[/\\]distlab[/\\](?:spmd|hangs)[/\\]")


class DumpError(ValueError):
    """A file that is no readable dump; the text is one clause that says why."""


@dataclass(frozen=True)
class Frame:
    """One line of a stack: file, line number, function and, where known, the line's text."""

    file: str
    line: int
    name: str
    text: str = ""

    @property
    def is_program(self) -> bool:
        """Whether the line belongs to the program rather than to a library or to us."""
        return not LIBRARY.search(self.file) and not OURS.search(self.file)


@dataclass(frozen=True)
class Call:
    """A collective that one rank issued, as the Flight Recorder noted it.

    seq:    its number in its group, from 1 on
    inputs: the input tensors' sizes; dtypes: their types; outputs: the output tensors' sizes
    done:   it has ended, well or with an error (the recorder does not tell which)
    when:   nanoseconds since the epoch, by the clock of its machine
    frames: from which lines, innermost first
    """

    group: str
    seq: int
    op: str
    inputs: tuple[tuple[int, ...], ...]
    outputs: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    done: bool
    when: int
    frames: tuple[Frame, ...]

    @property
    def lines(self) -> tuple[Frame, ...]:
        """The program's own lines that issued it, innermost first."""
        return program_lines(self.frames)


@dataclass(frozen=True)
class Standing:
    """Where one process stood, as `distlab.hangs.watch` wrote it.

    rank:   its rank, or None for a process in no process group
    ended:  it was leaving by itself
    moved:  its collectives went on in the last seconds before
    busy:   its stack changed in the last seconds before
    groups: name of each of its process groups -> description and global ranks
    stack:  of its main thread, innermost first
    """

    rank: int | None
    world_size: int | None = None
    ended: bool = False
    moved: bool = False
    busy: bool = False
    command: str = ""
    groups: dict[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    stack: tuple[Frame, ...] = ()


@dataclass(frozen=True)
class RankDump:
    """All that is known of one rank; `calls` is None when it left no dump that can be read."""

    rank: int
    calls: tuple[Call, ...] | None = None
    standing: Standing | None = None


@dataclass(frozen=True)
class Folder:
    """What a folder held: ranks in order, processes without a rank, sentences about bad files."""

    ranks: tuple[RankDump, ...]
    others: tuple[Standing, ...]
    complaints: tuple[str, ...]

    @property
    def missing(self) -> tuple[int, ...]:
        """The ranks below the world size of which nothing was found."""
        present = {dump.rank for dump in self.ranks}
        sizes = [d.standing.world_size or 0 for d in self.ranks if d.standing]
        size = min(max([*sizes, *(rank + 1 for rank in present)], default=0), 4096)
        return tuple(rank for rank in range(size) if rank not in present)


def program_lines(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """Return the lines of the program itself; else the outermost line there is."""
    return tuple(frame for frame in frames if frame.is_program) or frames[-1:]


def read_folder(folder: Path) -> Folder:
    """Read every dump in a folder. Raises NotADirectoryError; a bad file becomes a complaint."""
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder} is not a folder; give the folder that holds the dumps")
    calls: dict[int, tuple[Call, ...]] = {}
    standings: dict[int, Standing] = {}
    others, complaints = [], []
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        try:
            if path.suffix == ".json":
                standing = read_standing(_bytes(path))
                if standing.rank is None:
                    others.append(standing)
                else:
                    standings[standing.rank] = standing
            elif path.is_file():
                rank = _rank_of(path)
                calls[rank] = read_calls(_bytes(path))
        except (DumpError, OSError) as error:
            complaints.append(f"{printable(path.name)} was left out: {printable(str(error))}.")
    ranks = sorted(calls.keys() | standings.keys())
    dumps = tuple(RankDump(rank, calls.get(rank), standings.get(rank)) for rank in ranks)
    return Folder(dumps, tuple(others), tuple(complaints))


def _rank_of(path: Path) -> int:
    match = NUMBERED.search(path.name)
    if match is None:
        raise DumpError("its name has no rank in it; call it rank_0.pickle, rank_1.pickle, …")
    return int(match[1] or match[2])


def _bytes(path: Path) -> bytes:
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise DumpError(f"it has {size} bytes, and a dump has at most {MAX_BYTES}")
    if size == 0:
        raise DumpError("it is empty; the rank died or was stopped before it wrote")
    return path.read_bytes()


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> object:
        raise DumpError(f"it asks for {module}.{name}, and a dump holds plain data only")


def load_plain(data: bytes) -> object:
    """Unpickle plain data. Raises DumpError for anything else, without running any of it."""
    plain = frozenset(PLAIN.split())
    try:
        for number, (opcode, argument, _) in enumerate(pickletools.genops(data)):
            if opcode.name not in plain:
                raise DumpError(f"it has a pickle opcode {opcode.name}, which plain data has not")
            # The memo is an array: a huge index in a tiny file would allocate it whole.
            if opcode.name.endswith("PUT") and argument > number:
                raise DumpError(f"it numbers object {argument} before there are as many")
        return _PlainUnpickler(io.BytesIO(data)).load()
    except DumpError:
        raise
    except Exception as error:  # pickle promises no narrower class for damaged input
        raise DumpError(f"it is no whole pickle ({type(error).__name__}: {error})") from error


def read_calls(data: bytes) -> tuple[Call, ...]:
    """Return the collectives of one rank's dump in the order of issue. Raises DumpError."""
    dump = load_plain(data)
    if not isinstance(dump, dict) or "pg_config" not in dump:
        raise DumpError("it is a pickle, and not of the Flight Recorder")
    try:
        entries = [_call(entry) for entry in dump.get("entries", []) if not entry["is_p2p"]]
    except (LookupError, TypeError, ValueError, ArithmeticError) as error:
        what = f"{type(error).__name__}: {error}"
        raise DumpError(f"an entry is not as torch 2.8 writes it ({what})") from error
    return tuple(entries)


def _call(entry: dict) -> Call:
    return Call(
        group=str(entry["process_group"][0]),
        seq=int(entry["collective_seq_id"]),
        op=str(entry["profiling_name"]).rpartition(":")[2],
        inputs=tuple(tuple(map(int, sizes)) for sizes in entry["input_sizes"][:MOST]),
        outputs=tuple(tuple(map(int, sizes)) for sizes in entry["output_sizes"][:MOST]),
        dtypes=tuple(map(str, entry["input_dtypes"][:MOST])),
        done=bool(entry["retired"]) or entry["state"] == "completed",
        when=int(entry["time_created_ns"]),
        frames=tuple(
            Frame(str(frame["filename"]), int(frame["line"]), str(frame["name"]))
            for frame in entry["frames"][:MOST]
        ),
    )


def read_standing(data: bytes) -> Standing:
    """Return where a process stood, from the JSON that `watch` wrote. Raises DumpError."""
    try:
        read = json.loads(data)
        groups = {
            str(name): (str(about), tuple(map(int, ranks)))
            for name, (about, ranks) in read["groups"].items()
        }
        return Standing(
            rank=None if read["rank"] is None else int(read["rank"]),
            world_size=None if read["world_size"] is None else int(read["world_size"]),
            ended=bool(read["ended"]),
            moved=bool(read["moved"]),
            busy=bool(read["busy"]),
            command=str(read["command"]),
            groups=groups,
            stack=tuple(
                Frame(str(file), int(line), str(name), str(text))
                for file, line, name, text in read["stack"]
            ),
        )
    except (
        LookupError,
        TypeError,
        ValueError,
        ArithmeticError,
        AttributeError,
        RecursionError,
    ) as error:
        what = f"{type(error).__name__}: {error}"
        raise DumpError(f"it is not what distlab.hangs writes ({what})") from error


def printable(text: str) -> str:
    """Return text without the control characters by which a file could steer a terminal."""
    shown = "".join(char if char.isprintable() else "?" for char in text[:LONGEST])
    return shown + "…" * (len(text) > LONGEST)
