"""The hang clinic: untrusted dumps, the first difference, and scripts that know nothing of it."""

import os
import pickle
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from distlab.hangs import compare, dumps, report
from distlab.hangs.__main__ import FAILED, FINE, MOVING, STUCK, UNUSABLE
from distlab.hangs.dumps import Folder, Frame, RankDump, Standing
from distlab.spmd import texts
from press import scan
from press.judge import rank_texts
from press.project import ROOT

pytestmark = pytest.mark.slow  # new interpreters by the dozen

CODE = ROOT / "code"
PAGE = "courses/pytorch/hang_clinic.md"


def entry(seq: int, op: str = "all_reduce", line: int = 10, *, done: bool = True, **other) -> dict:
    """Return one entry as torch 2.8 writes it for gloo."""
    frames = [
        {"filename": "/x/site-packages/torch/distributed/distributed_c10d.py", "line": 1,
         "name": op},
        {"filename": "/home/me/train.py", "line": line, "name": "step"},
    ]  # fmt: skip
    return {
        "process_group": ("0", "default_pg"), "collective_seq_id": seq, "is_p2p": False,
        "profiling_name": f"gloo:{op}", "input_sizes": [[4]], "output_sizes": [[4]],
        "input_dtypes": ["Float"], "state": "scheduled", "retired": done,
        "time_created_ns": 1000 + seq, "frames": frames,
    } | other  # fmt: skip


def dump(*entries: dict) -> bytes:
    """Return the bytes of a rank's dump."""
    return pickle.dumps({"version": "2.9", "pg_config": {}, "entries": list(entries)}, protocol=2)


def folder_of(*ranks: list[dict], standings: tuple[Standing, ...] = ()) -> Folder:
    """Return what is read when rank r has left the entries ranks[r]."""
    by_rank = {standing.rank: standing for standing in standings}
    read = [RankDump(r, dumps.read_calls(dump(*e)), by_rank.get(r)) for r, e in enumerate(ranks)]
    return Folder(tuple(read), (), ())


def told(folder: Folder) -> str:
    """Return the whole report, its line breaks undone."""
    return " ".join(" ".join(report.report(folder, compare.compare(folder))).split())


class Attack:
    """Unpickling it runs a command."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


# --- dumps are untrusted ---------------------------------------------------------------------


def test_a_dump_that_would_run_a_command_is_refused_and_runs_nothing(tmp_path):
    witness = tmp_path / "witness"
    with pytest.raises(dumps.DumpError, match="opcode"):
        dumps.load_plain(pickle.dumps(Attack(witness), protocol=2))

    assert not witness.exists()


def test_no_class_is_imported_even_if_its_opcode_were_let_through(monkeypatch):
    monkeypatch.setattr(dumps, "PLAIN", dumps.PLAIN + " GLOBAL REDUCE")
    with pytest.raises(dumps.DumpError, match=r"asks for \S+\.system"):
        dumps.load_plain(pickle.dumps(Attack(Path("/nowhere")), protocol=2))


def test_a_tiny_file_with_a_huge_memo_index_is_refused_before_it_allocates():
    bomb = b"\x80\x02]r\xff\xff\xff\x7f."
    with pytest.raises(dumps.DumpError, match="numbers object 2147483647"):
        dumps.load_plain(bomb)


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("rank_1.pickle", dump(entry(1))[:-40], "no whole pickle"),
        ("rank_1.pickle", b"", "it is empty"),
        ("rank_1.pickle", b"not a pickle at all", "no whole pickle|pickle opcode"),
        ("rank_1.pickle", pickle.dumps([1, 2], protocol=2), "not of the Flight Recorder"),
        ("rank_1.pickle", pickle.dumps({"w": 1}, protocol=2), "not of the Flight Recorder"),
        ("rank_1.pickle", dump({"is_p2p": False}), "KeyError: 'process_group'"),
        ("rank_1.pickle", dump(entry(1, input_sizes=7)), "not as torch 2.8 writes it"),
        ("notes.txt", b"hello", "has no rank in it"),
        ("rank_1.json", b'{"rank": 1}', "not what distlab.hangs writes"),
        ("rank_1.json", b"[" * 100_000, "not what distlab.hangs writes"),
        ("ra\x1b[31mnk.pickle", b"", r"ra\?\[31mnk"),
    ],
)
def test_a_bad_file_gets_a_sentence_and_the_others_are_read(tmp_path, name, data, says):
    (tmp_path / "rank_0.pickle").write_bytes(dump(entry(1)))
    (tmp_path / name).write_bytes(data)
    folder = dumps.read_folder(tmp_path)
    (complaint,) = folder.complaints

    assert re.search(says, complaint)
    assert [d.rank for d in folder.ranks] == [0]


def test_a_file_too_large_for_a_dump_is_not_even_read(tmp_path, monkeypatch):
    monkeypatch.setattr(dumps, "MAX_BYTES", 10)
    (tmp_path / "rank_0.pickle").write_bytes(dump(entry(1)))

    assert "at most 10" in dumps.read_folder(tmp_path).complaints[0]


@pytest.mark.parametrize("name", ["rank_3.pickle", "rank3", "nccl_trace_rank_3", "dump-3.pkl", "3"])
def test_the_rank_is_read_from_the_names_that_tools_give(tmp_path, name):
    (tmp_path / name).write_bytes(dump(entry(1)))

    assert [d.rank for d in dumps.read_folder(tmp_path).ranks] == [3]


# --- the first difference --------------------------------------------------------------------


def test_a_rank_that_never_arrived_is_named_with_the_number_and_the_callers_line():
    pending = entry(2, "barrier", 30, done=False, input_sizes=[], input_dtypes=[])
    folder = folder_of([entry(1), pending], [entry(1)], [entry(1), pending])
    findings = compare.compare(folder)

    assert (findings.differences[0].seq, findings.suspects) == (2, (1,))
    assert "Ranks 0 and 2 issued barrier, from /home/me/train.py:30 in step" in told(folder)
    assert "Rank 1 never arrived" in told(folder)


def test_the_same_number_with_another_operation_is_a_difference():
    alike, other = [entry(1), entry(2)], [entry(1), entry(2, "broadcast", 12)]
    findings = compare.compare(folder_of(alike, alike, other))

    assert (findings.differences[0].seq, findings.suspects) == (2, (2,))


@pytest.mark.parametrize("other", [{"input_sizes": [[5]]}, {"input_dtypes": ["Int"]}])
def test_other_sizes_or_types_are_a_difference(other):
    alike = [entry(1)]
    findings = compare.compare(folder_of(alike, [entry(1, **other)], alike))

    assert findings.suspects == (1,)


@pytest.mark.parametrize("op", ["scatter", "gather", "all_to_all"])
def test_operations_to_which_ranks_pass_their_own_sizes_do_not_differ_by_them(op):
    folder = folder_of([entry(1, op)], [entry(1, op, input_sizes=[[9]])])

    assert not compare.compare(folder).differences


def test_two_ranks_at_odds_are_both_suspected():
    folder = folder_of([entry(1)], [entry(1, "broadcast")])

    assert compare.compare(folder).suspects == (0, 1)
    assert "no majority" in told(folder)


def test_a_rank_that_left_a_call_out_and_went_on_is_told_from_one_that_did_something_else():
    """It has the same number as the others, with the call that followed in earlier rounds."""
    metric, grads = (lambda n: entry(n, "all_reduce", 20)), (lambda n: entry(n, "all_gather", 12))
    full = [metric(1), grads(2), metric(3)]
    text = told(folder_of(full, full, [metric(1), grads(2), grads(3)]))

    assert "rank 2 left that call out" in text
    rounds = [metric(1), grads(2), entry(3, "reduce", 9), metric(4)]
    out_of_order = [*rounds[:3], entry(4, "reduce", 9)]  # it follows grads, not metric
    assert "left" not in told(folder_of(rounds, rounds, out_of_order))


def test_what_one_rank_has_forgotten_is_no_difference():
    """The recorder is a ring: each rank drops its oldest calls at its own pace."""
    folder = folder_of([entry(5), entry(6)], [entry(6)])

    assert not compare.compare(folder).differences


def test_numbers_that_no_rank_has_are_no_difference():
    """monitored_barrier uses up two numbers and is not noted."""
    assert not compare.compare(folder_of([entry(1), entry(4)], [entry(1), entry(4)])).differences


def test_equal_calls_from_different_lines_are_noted_without_being_called_wrong():
    folder = folder_of([entry(1), entry(2, line=20)], [entry(1), entry(2, line=44)])

    assert not compare.compare(folder).differences
    assert "Note: collective 2" in told(folder)
    assert "train.py:44" in told(folder)


def test_groups_are_counted_apart_and_their_members_are_taken_from_what_a_rank_told():
    sub = {"process_group": ("1", "undefined")}
    members = {"1": ("tp", (0, 2))}
    folder = folder_of(
        [entry(1), entry(1, "broadcast", 8, done=False, **sub)],
        [entry(1)],
        [entry(1)],
        standings=(Standing(0, 3, groups=members),),
    )

    (difference,) = compare.compare(folder).differences
    assert (difference.group, difference.absent) == ("1", (2,))
    assert 'group "tp" of ranks 0 and 2' in told(folder)


def test_of_ranks_that_wait_for_each_other_the_one_that_waits_for_none_is_suspected():
    sub = {"process_group": ("1", "undefined"), "time_created_ns": 1}
    folder = folder_of(
        [entry(1, done=False)],
        [entry(1, "broadcast", done=False, **sub)],
        [entry(1, "broadcast", done=True, **sub)],
    )

    assert compare.compare(folder).suspects == (2,)


def test_calls_that_agree_and_are_pending_blame_nobody():
    folder = folder_of([entry(1, done=False)], [entry(1, done=False)])

    assert compare.compare(folder).suspects == ()
    assert "some have not ended" in told(folder)


def test_dumps_that_name_no_group_are_not_compared():
    """Under DETAIL the checker's own calls stand among the program's, with numbers of their own."""
    nameless = {"process_group": ("", "")}
    folder = folder_of([entry(1, **nameless)], [entry(1, "broadcast", **nameless)])

    assert not compare.compare(folder).differences
    assert "Run it without" in told(folder)


@pytest.mark.parametrize(("moved", "apart"), [(False, (2,)), (True, ())])
def test_where_no_call_differs_the_rank_with_another_stack_stands_apart(moved, apart):
    """As in new_group, send and recv, which are not noted."""
    lines = (8, 8, 11)
    standings = tuple(
        Standing(r, 3, moved=moved, stack=(Frame("train.py", line, "main"),))
        for r, line in enumerate(lines)
    )
    folder = folder_of([], [], [], standings=standings)

    assert compare.compare(folder).apart == apart
    assert ("By the stacks, look first at rank 2" in told(folder)) == bool(apart)


def test_of_two_and_two_nobody_stands_apart():
    standings = tuple(Standing(r, 4, stack=(Frame("train.py", r % 2, "main"),)) for r in range(4))

    assert compare.compare(folder_of([], [], [], [], standings=standings)).apart == ()


def test_a_rank_without_any_dump_is_missed():
    standing = Standing(0, 3, stack=(Frame("/home/me/train.py", 5, "main", "work()"),))
    folder = Folder((RankDump(0, (), standing),), (), ())

    assert "Nothing was found of ranks 1 and 2" in told(folder)
    assert "none was called yet" in told(folder)
    assert "standing at /home/me/train.py:5 in main (work())" in told(folder)


def test_what_a_file_says_is_shown_short_and_without_control_characters():
    frames = [{"filename": "/home/\x1b[2J" + "x" * 5000, "line": 3, "name": "step"}]
    text = told(folder_of([entry(1, frames=frames)], [entry(1, "broadcast", frames=[])]))

    assert "\x1b" not in text
    assert len(text) < 4000


# --- the command line ------------------------------------------------------------------------


def hangs(
    *args: object, cwd: Path, timeout: float = 600, **env: str
) -> subprocess.CompletedProcess:
    """Run `python -m distlab.hangs`, its line breaks undone."""
    done = subprocess.run(
        [sys.executable, "-m", "distlab.hangs", *map(str, args)],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(CODE)} | env,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    done.stdout = " ".join(done.stdout.split())
    return done


@pytest.fixture
def script(tmp_path):
    """Write a script into a folder below the working directory and return its relative path."""

    def write(body: str, name: str = "train.py") -> Path:
        folder = tmp_path / "work" / "project"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(textwrap.dedent(body))
        return Path("project") / name

    return write


@pytest.fixture
def work(tmp_path):
    """Return the working directory, and check that the temp folder was left empty."""
    for name in ("work", "tmp"):
        (tmp_path / name).mkdir(exist_ok=True)
    yield tmp_path / "work"
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_folder_of_dumps_is_read_from_the_command_line(tmp_path):
    (tmp_path / "rank_0.pickle").write_bytes(dump(entry(1), entry(2, done=False)))
    (tmp_path / "rank_1.pickle").write_bytes(dump(entry(1)))
    done = hangs(tmp_path, cwd=tmp_path)

    assert done.returncode == STUCK
    assert "collective 2 of the default group" in done.stdout


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["nowhere"], "not a folder"),
        ([], "Give one folder"),
        (["--run", "nowhere.py"], "is no file"),
        (["--run", __file__, "--nproc", "0"], "--nproc 0: give 1 to 16 ranks"),
        (["--run", __file__, "--nproc", "99"], "--nproc 99: give 1 to 16 ranks"),
        (["--run", __file__, "--after", "0"], "give 0.5 to 3600 seconds"),
        (["--run", __file__, "--after", "nan"], "give 0.5 to 3600 seconds"),
        ([str(CODE)], "No dump could be read"),
    ],
)
def test_what_cannot_be_done_gets_a_sentence_and_status_2(tmp_path, args, says):
    done = hangs(*args, cwd=tmp_path)

    assert done.returncode == UNUSABLE
    assert says in done.stderr
    assert "Traceback" not in done.stderr


STUCK_SCRIPT = """
    import sys, time; from datetime import timedelta
    import torch, torch.distributed as dist
    from helper import reduce_mean

    dist.init_process_group("gloo", timeout=timedelta(minutes=int(open("minutes").read())))
    reduce_mean(torch.ones(2))
    if dist.get_rank() == int(sys.argv[1]):
        time.sleep(600)
    reduce_mean(torch.ones(3))
"""
HELPER = """
    import torch.distributed as dist

    def reduce_mean(x):
        dist.all_reduce(x)
        return x / dist.get_world_size()
"""


@pytest.mark.parametrize("start", ["fork", "fresh"])
def test_a_script_that_hangs_is_told_rank_by_rank(script, work, tmp_path, start):
    """Its own imports work; its path and its files are found from where the command was given."""
    script(HELPER, "helper.py")
    (work / "minutes").write_text("30")
    after = 6 if start == "fork" else 25
    args = ("--run", script(STUCK_SCRIPT), "--nproc", 3, "--after", after, "--start", start)
    done = hangs(*args, "--keep", "kept", "--", 1, cwd=work, TMPDIR=str(tmp_path / "tmp"))

    assert done.returncode == STUCK, done.stdout + done.stderr
    assert "collective 2 of the default group" in done.stdout
    assert "Ranks 0 and 2 issued all_reduce of [3] Float, from project/helper.py:5" in done.stdout
    assert "Rank 1 never arrived" in done.stdout
    assert "standing at project/train.py:9 in <module> (time.sleep(600))" in done.stdout
    assert "Look first at rank 1" in done.stdout
    again = hangs("kept", cwd=work)
    assert again.returncode == STUCK
    assert again.stdout.endswith("Look first at rank 1.")


def test_a_rank_that_holds_the_interpreter_is_still_located(script, work, tmp_path):
    """No Python thread of it can run, so the stack comes from a signal handler in C."""
    path = script("""
        import collections, itertools
        import torch, torch.distributed as dist

        dist.init_process_group("gloo")
        if dist.get_rank() == 1:
            collections.deque(itertools.repeat(0), maxlen=0)  # an endless loop in C
        dist.barrier()
    """)
    args = ("--run", path, "--nproc", 2, "--after", 4)
    done = hangs(*args, cwd=work, TMPDIR=str(tmp_path / "tmp"))

    assert done.returncode == STUCK, done.stdout + done.stderr
    assert "rank 1: no dump; standing at project/train.py:7" in done.stdout


def test_ranks_that_a_script_spawns_itself_are_watched_as_well(script, work, tmp_path):
    path = script("""
        import torch, torch.distributed as dist, torch.multiprocessing as mp

        def worker(rank, store):
            dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
            group = dist.new_group([0])
            if rank == 0:
                dist.all_reduce(torch.ones(7))
            else:
                mp.Event().wait()

        if __name__ == "__main__":
            import sys
            mp.start_processes(worker, (sys.argv[1],), nprocs=2, start_method="fork")
    """)
    store = work / "store"
    done = hangs("--run", path, "--after", 6, "--", store, cwd=work, TMPDIR=str(tmp_path / "tmp"))

    assert done.returncode == STUCK, done.stdout + done.stderr
    assert "Rank 0 issued all_reduce of [7] Float, from project/train.py:8" in done.stdout
    assert "Look first at rank 1" in done.stdout


def test_a_script_that_ends_before_its_time_is_said_to_have_ended(script, work, tmp_path):
    path = script("""
        import sys
        import torch, torch.distributed as dist

        dist.init_process_group("gloo")
        dist.barrier()
        if "--fail" in sys.argv and dist.get_rank() == 1:
            raise ValueError("bad sample 1234")
        dist.barrier()
        dist.destroy_process_group()
    """)
    given = {"cwd": work, "TMPDIR": str(tmp_path / "tmp")}
    done = hangs("--run", path, "--nproc", 2, "--after", 60, **given)
    assert done.returncode == FINE, done.stdout + done.stderr
    assert "ranks 0 and 1: exit status 0" in done.stdout

    done = hangs("--run", path, "--nproc", 2, "--after", 60, "--", "--fail", **given)
    assert done.returncode == FAILED
    assert "rank 1 failed first, saying: ValueError: bad sample 1234" in done.stdout
    assert "Look first at rank 1" in done.stdout


def test_a_rank_that_crashes_makes_a_failed_script_and_no_stuck_one(script, work, tmp_path):
    """Its peer, which waited, is ended seconds later and was not stuck at the appointed time."""
    path = script("""
        import os, time
        import torch, torch.distributed as dist

        dist.init_process_group("gloo")
        if dist.get_rank() == 1:
            os.abort()
        time.sleep(600)
    """)
    args = ("--run", path, "--nproc", 2, "--after", 60)
    done = hangs(*args, cwd=work, TMPDIR=str(tmp_path / "tmp"))

    assert done.returncode == FAILED, done.stdout + done.stderr
    assert "rank 1: exit status -6" in done.stdout
    assert "standing at project/train.py:7 in <module>" in done.stdout


def test_a_script_that_is_slow_and_not_stuck_is_said_to_move(script, work, tmp_path):
    path = script("""
        import time
        import torch, torch.distributed as dist

        dist.init_process_group("gloo")
        while True:
            dist.all_reduce(torch.ones(2))
            time.sleep(0.05)
    """)
    args = ("--run", path, "--nproc", 2, "--after", 4)
    done = hangs(*args, cwd=work, TMPDIR=str(tmp_path / "tmp"))

    assert done.returncode == MOVING, done.stdout + done.stderr
    assert "Not stuck after 4 s" in done.stdout


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_when_the_command_is_ended(script, tmp_path, work, signum):
    path = script("""
        import os, time
        open(f"alive{os.environ['RANK']}", "w").write(str(os.getpid()))
        time.sleep(600)
    """)
    command = [sys.executable, "-m", "distlab.hangs", "--run", path, "--nproc", "2"]
    env = os.environ | {"PYTHONPATH": str(CODE), "TMPDIR": str(tmp_path / "tmp")}
    with subprocess.Popen([*command, "--after", "600"], cwd=work, env=env) as process:
        _until(lambda: all((work / f"alive{rank}").exists() for rank in (0, 1)), 60)
        process.send_signal(signum)
        process.wait(200)
    ranks = [int((work / f"alive{rank}").read_text()) for rank in (0, 1)]

    _until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in ranks), 50)
    _until(lambda: not list((tmp_path / "tmp").iterdir()), 50)


# --- the page --------------------------------------------------------------------------------

SAYS = {
    "clinic-stacks": r"rank 0.*in evaluate: dist\.all_reduce.*ranks 1-3.*dist\.barrier",
    "clinic-monitored": r"rank 0 \S*Rank 0\]: Ranks 2, 3 failed.*rank 1 Rank 1 successfully",
    "clinic-detail": r"rank 0 2 \('0', 'ALLREDUCE', '\[1\]'\) \('2', 'BROADCAST', '\[4\]'\)",
    "clinic-recorder": r"ranks 0-1.* 5 gloo:all_reduce \[\[1\]\] \(w.*rank 2.* 5 gloo:broadcast",
    "clinic-torchfrtrace": "No module named 'tools'",
    "clinic-run": "rank 2 left that call out.* Look first at rank 2",
    "clinic-pipeline": r"Rank 3 never arrived.*standing at pipe\.py:7.*rank_1.pickle was left out",
    "clinic-doctor": "eth7.*=999.*here: GLOO_SOCKET_IFNAME=lo0? OMP_NUM_THREADS=[0-9]+ torchrun",
}


def test_every_fence_of_the_page_says_what_the_text_reads_off_it(launcher):
    """As declared is not enough: a traceback ends with status 1 as well."""
    fences_of_page = scan.file(ROOT / "content" / PAGE, ROOT / "content").fences
    links = tuple((name, str(ROOT / name)) for name in ("content", "code", "site"))
    running = [launcher.submit(fence.program(fence.code, links)) for fence in fences_of_page]
    for fence, future in zip(fences_of_page, running, strict=True):
        folded = texts.fold(rank_texts(fence, future.result(), fence.code))
        shown = " ".join(" ".join(f"{label} {text}" for label, text in folded).split())
        assert re.search(SAYS[fence.id], shown), f"{fence.id}: {shown}"


def _until(condition, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition was not met in time"
        time.sleep(0.05)
