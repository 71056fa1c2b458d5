"""A program on N ranks behaves as the same file does under torchrun, and always comes to an end."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from textwrap import dedent

import pytest

from distlab import spmd
from distlab.spmd import Program, processes, rank, texts
from distlab.spmd.run import LOOK, Run
from distlab.spmd.server import COMPUTING, MOST, WAITING, Server
from tools.watch import eventually, processes_with


def run(launcher, source, **options):
    return launcher.run(Program(dedent(source), **options))


def outputs(outcome):
    assert outcome.cause == "finished", (outcome.cause, outcome.ranks[0].stderr)
    return [texts.normalise(r.stdout) for r in outcome.ranks]


DDP = """
    import os, torch, torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP
    dist.init_process_group("gloo")
    model = torch.nn.Linear(3, 1).double()
    first = model.weight.detach().clone()
    x = torch.randn(4, 3, dtype=torch.float64)
    ddp = DDP(model)
    local = torch.autograd.grad(model(x).pow(2).mean(), model.weight)[0]
    ddp(x).pow(2).mean().backward()
    print(os.getpid(), torch.initial_seed(), first.tolist(), model.weight.tolist(),
          local.tolist(), model.weight.grad.tolist(), sep="|")
    dist.destroy_process_group()
"""


def test_four_ranks_are_four_processes_with_equal_parameters_and_the_mean_gradient(launcher):
    rows = [text.strip().split("|") for text in outputs(run(launcher, DDP, ranks=4))]
    pids, seeds, first, wrapped, local, averaged = zip(*rows, strict=True)

    assert len(set(pids)) == 4
    assert seeds == ("1000", "1001", "1002", "1003")
    assert len(set(first)) == 4
    assert len(set(wrapped)) == 1
    assert len(set(averaged)) == 1
    columns = zip(*(eval(text)[0] for text in local), strict=True)  # noqa: S307 -- our own list
    assert [sum(c) / 4 for c in columns] == pytest.approx(eval(averaged[0])[0])  # noqa: S307


def test_the_environment_is_that_of_torchrun(launcher, tmp_path):
    """Run the same program under the real torchrun and compare the names, and what is constant."""
    source = """
        import os
        prefixes = ("TORCHELASTIC", "ROLE", "GROUP", "LOCAL", "MASTER", "RANK", "WORLD", "OMP_NUM",
                    "TORCH_NCCL")
        known = {k: v for k, v in os.environ.items() if k.startswith(prefixes)}
        for name in ("MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_ERROR_FILE"):
            known.pop(name, None)
        print(f"{sorted(known.items())}\\n", end="")  # one write, which no other rank can split
    """
    ours = outputs(run(launcher, source, ranks=2))
    file = tmp_path / "fence.py"
    file.write_text(dedent(source))
    torchrun = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nnodes=1", "--nproc_per_node=2",
         "--master_addr=127.0.0.1", "--master_port=0", file],
        capture_output=True, text=True, timeout=300, check=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip

    assert sorted(ours) == sorted(line + "\n" for line in torchrun.stdout.splitlines())


def test_the_store_listens_on_the_loopback_interface_only(launcher):
    source = """
        import os
        port = "%04X" % int(os.environ["MASTER_PORT"])
        rows = [line.split() for f in ("tcp", "tcp6") for line in open(f"/proc/net/{f}")]
        print([row[1] for row in rows if row[1].endswith(":" + port) and row[3] == "0A"])
    """
    (text,) = outputs(run(launcher, source))
    port = re.search(r":([0-9A-F]{4})", text)[1]

    assert text == f"['0100007F:{port}']\n"


AS_IN_A_SCRIPT = {
    "print with sep": ('print(1, 2, 3, sep=",")', "1,2,3\n"),
    "output in order": (
        "import os, subprocess, ctypes, sys\n"
        'print("a")\n'
        'subprocess.run(["echo", "b"])\n'
        'ctypes.CDLL(None).puts(b"c"); ctypes.CDLL(None).fflush(None)\n'
        'os.write(1, b"d\\n")',
        "a\nb\nc\nd\n",
    ),
    "C output that nobody flushes": ('import ctypes; ctypes.CDLL(None).puts(b"late")', "late\n"),
    "main": ("print(__name__, __file__.endswith('fence.py'))", "__main__ True\n"),
    "arguments": ("import sys; print(len(sys.argv))", "1\n"),
    "atexit": ("import atexit; atexit.register(print, 'bye')", "bye\n"),
    "threads are joined": (
        "import threading, time\n"
        "threading.Thread(target=lambda: (time.sleep(0.2), print('late'))).start()",
        "late\n",
    ),
    "getsource": (
        "import inspect\ndef f():\n    return 1\nprint(inspect.getsource(f))",
        "def f():\n    return 1\n\n",
    ),
    "pickling": (
        "import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))).__name__)",
        "A\n",
    ),
    "jit": (
        "import torch\n@torch.jit.script\ndef f(x: torch.Tensor):\n    return x + 1\n"
        "print(f(torch.ones(1)).item())",
        "2.0\n",
    ),
    "files between ranks": ("open('x', 'w').write('1'); print(open('x').read())", "1\n"),
    "temp folder": (
        "import tempfile, os\nprint(tempfile.gettempdir() == os.environ['TMPDIR'])",
        "True\n",
    ),
    "autograd on several threads": (
        "import torch\ntorch.set_num_threads(2)\nx = torch.ones(1000, 1000, requires_grad=True)\n"
        "(x @ x).sum().backward()\nprint(x.grad[0, 0].item())",
        "2000.0\n",
    ),
    "loader workers": (
        "import torch\nfrom torch.utils.data import DataLoader\n"
        "print([b.tolist() for b in DataLoader(range(4), batch_size=2, num_workers=2)])",
        "[[0, 1], [2, 3]]\n",
    ),
    "mp.spawn": (
        "import torch.multiprocessing as mp\n"
        "def work(i):\n    print('worker', i)\n"
        "if __name__ == '__main__':\n    mp.spawn(work, nprocs=1)",
        "worker 0\n",
    ),
}


@pytest.mark.parametrize("name", AS_IN_A_SCRIPT)
def test_works_as_in_a_script(launcher, name):
    source, expected = AS_IN_A_SCRIPT[name]

    assert [expected] == outputs(launcher.run(Program(source)))


def test_stderr_holds_logging_warnings_and_c_output(launcher):
    source = """
        import logging, os, warnings
        logging.warning("logged")
        warnings.warn("warned")
        os.write(2, b"written\\n")
    """
    said = run(launcher, source).ranks[0].stderr

    assert all(word in said for word in ("logged", "warned", "written"))


def test_no_state_passes_from_one_program_to_the_next(launcher):
    change = """
        import os, random, torch
        torch.set_default_dtype(torch.float64); torch.manual_seed(1); torch.set_grad_enabled(False)
        os.environ["LEFT"] = "1"; os.chdir("/"); random.seed(5); torch.x = 1
    """
    look = """
        import os, torch
        print(torch.get_default_dtype(), torch.initial_seed(), torch.is_grad_enabled(),
              os.environ.get("LEFT"), os.getcwd() == "/", hasattr(torch, "x"))
    """
    run(launcher, change)

    assert outputs(run(launcher, look)) == ["torch.float32 1000 True None False False\n"]


def test_at_the_deadline_the_report_shows_where_each_rank_stood(launcher):
    source = dedent("""
        import time, torch.distributed as dist
        dist.init_process_group("gloo")
        if dist.get_rank() == 0:
            dist.barrier()
        else:
            time.sleep(600)  # skips the barrier
    """)
    outcome = launcher.run(Program(source, ranks=2, timeout=5))
    stood = [texts.where_it_stood(r.stack, source) for r in outcome.ranks]

    assert outcome.cause == "deadline"
    assert "in barrier" in stood[0]
    assert "fence.py, line 7, in <module>: time.sleep(600)  # skips the barrier" in stood[1]
    assert outcome.seconds < 60  # long before the sleep's end
    assert not any("distlab/spmd" in text for text in stood)


@pytest.mark.parametrize(
    "source",
    ["import time; time.sleep(60)",
     "import ctypes; c = ctypes.CDLL(None); c.__cxa_atexit(c.pause, None, None)"],
    ids=["before its first line", "after its last"],
)  # fmt: skip
def test_a_rank_without_a_stack_to_show_is_killed_and_not_ended_by_the_question(source):
    """SIGUSR1 would end a new interpreter that has not begun, or one that C code detains."""
    early = "sleep" in source
    with spmd.Launcher(preload=("json",)) as launcher:
        program = Program(source, start="fresh", timeout=0.001 if early else 5)
        outcome = launcher.run(program)
    ended = outcome.ranks[0]

    assert (outcome.cause, ended.exit, ended.killed) == ("deadline", -signal.SIGKILL, True)
    assert texts.where_it_stood(ended.stack) == ""


def test_a_stack_is_waited_for_until_its_outermost_frame(tmp_path):
    """Faulthandler writes frame by frame, and a busy machine may pause it after any line."""
    asked = Run(Program("pass"), tmp_path / "1", 0)
    asked.started(0, os.getpid())
    stack = asked.members[0].place.file("stack")
    frames = [f'  File "fence.py", line {n} in f' for n in range(3)]
    last = '  File "<frozen runpy>", line 198 in _run_module_as_main'
    lines = ["Current thread 0x0000 (most recent call first):", *frames, last]
    written = []
    for line in lines:
        with stack.open("a") as file:
            file.write(f"{line}\n")
        written.append(asked.answered())

    assert written == [False] * 4 + [True]


def test_a_server_that_removes_its_log_as_it_ends_is_no_error(monkeypatch):
    """Its caller's thread would print a traceback beside what the caller has to say."""
    with spmd.Launcher(preload=("json",)) as launcher:
        shutil.rmtree(launcher.folder)
        monkeypatch.setattr(Path, "exists", lambda _: True)  # a moment ago it was there
        launcher.fail_pending()

    assert "it said: nothing" in str(launcher.error)


def test_all_ranks_are_stopped_before_one_is_killed(tmp_path, monkeypatch):
    """Or the last would see that the first has gone, and say so, on a busy machine."""
    sent = []
    monkeypatch.setattr(processes, "send", lambda pid, signum, **_: sent.append((pid, signum)))
    run = Run(Program("pass", ranks=3), tmp_path / "1", 0)
    for index in range(3):
        run.started(index, 2**22 + index)  # above the kernel's largest process id
    run.kill()
    first_kill = next(n for n, (_, signum) in enumerate(sent) if signum == signal.SIGKILL)

    assert {pid for pid, _ in sent[:first_kill]} == {2**22, 2**22 + 1, 2**22 + 2}


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        ("1 / 0", 1),
        ("import sys; sys.exit(0)", 0),
        ("import sys; sys.exit(3)", 3),
        ("import sys; sys.exit('words')", 1),
        ("import os; os._exit(0)", 0),
        ("import os; os.abort()", -signal.SIGABRT),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("import ctypes; ctypes.string_at(0)", -signal.SIGSEGV),
    ],
)
def test_a_rank_that_does_not_run_off_its_end_has_failed(launcher, ending, status):
    """Also with status 0, and on the last line: the lines after it would have been skipped."""
    outcome = run(launcher, f"print('before')\n{ending}")

    assert (outcome.cause, outcome.first_failed) == ("failed", 0)
    assert (outcome.ranks[0].exit, outcome.ranks[0].finished) == (status, False)
    assert outcome.ranks[0].stdout == "before\n"


def test_a_failed_rank_ends_its_peers_and_is_the_one_to_blame(launcher):
    source = """
        import os, time
        if os.environ["RANK"] == "2":
            raise ValueError("bad sample")
        time.sleep(600)
    """
    outcome = run(launcher, source, ranks=4, timeout=600)

    assert (outcome.cause, outcome.first_failed) == ("failed", 2)
    assert outcome.seconds < 100  # long before the deadline
    assert [r.killed for r in outcome.ranks] == [True, True, False, True]
    assert texts.last_error(outcome.ranks[2].stderr) == "ValueError: bad sample"


def test_who_failed_first_is_blamed_also_if_the_server_looks_later(launcher):
    """Its peer fails at once; a server without a core hears of both together, rank 0 first."""
    source = """
        import os, torch.distributed as dist
        dist.init_process_group("gloo")
        dist.barrier()
        if dist.get_rank() == 1:
            os.kill(os.getppid(), 19)
            raise ValueError("bad sample")
        dist.barrier()
    """
    future = launcher.submit(Program(dedent(source), ranks=2))
    assert eventually(lambda: zombies(launcher.pid) == 2, 60)
    os.kill(launcher.pid, signal.SIGCONT)

    assert future.result().first_failed == 1


def test_a_rank_that_only_heard_of_an_end_is_not_blamed_for_it(launcher):
    """The rank that raised closes its connections first, so that its peer is gone before it."""
    source = """
        import os, time, torch.distributed as dist
        dist.init_process_group("gloo")
        try:
            dist.barrier()
            if dist.get_rank() == 1:
                raise ValueError("bad sample")
            dist.barrier()
        finally:
            dist.destroy_process_group()
            time.sleep(1.5 * int(os.environ["RANK"]))
    """
    outcome = run(launcher, source, ranks=2)

    assert outcome.ranks[0].seconds < outcome.ranks[1].seconds
    assert outcome.first_failed == 1


def zombies(server: int) -> int:
    """Return how many children of a process have ended, all their threads too, and wait for it."""
    folders = [Path(f"/proc/{pid}") for pid in processes.children(server)]
    return sum(
        ") Z " in (folder / "stat").read_text() and len(list((folder / "task").iterdir())) == 1
        for folder in folders
    )


def test_a_traceback_has_no_frame_of_ours(launcher):
    said = run(launcher, "def f():\n    raise ValueError('x')\nf()").ranks[0].stderr

    assert re.findall(r"in (\S+)", said) == ["<module>", "f"]


@pytest.mark.parametrize("start", spmd.program.START_METHODS)
def test_children_in_a_session_of_their_own_are_found_and_killed(launcher, start):
    source = """
        import subprocess, os
        subprocess.Popen(["sleep", "61"], start_new_session=True)
        subprocess.Popen(["setsid", "sh", "-c", "sleep 62 & sleep 63"])
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.closerange(0, 64); os.chdir("/")
                os.execv("/bin/sleep", ["sleep", "64"])
            os._exit(0)
        os.wait()
    """
    outcome = run(launcher, source, start=start)

    assert outcome.cause == "finished"
    assert "sleep 61" in outcome.left_behind
    assert not [line for line in processes_with("sleep") if re.search(r"sleep 6[1-4]", line)]


def test_a_sweep_spares_what_another_program_has_started(launcher, tmp_path):
    source = f"""
        import subprocess, time
        from pathlib import Path
        subprocess.run(["setsid", "--fork", "sleep", "65"])
        Path("{tmp_path}/orphaned").touch()
        while not Path("{tmp_path}/swept").exists():
            time.sleep(0.01)
        print(subprocess.run(["pgrep", "-fx", "sleep 65"], capture_output=True).returncode)
    """
    slow = launcher.submit(Program(dedent(source)))
    assert eventually((tmp_path / "orphaned").exists, 60)
    run(launcher, "pass")  # its end sweeps
    (tmp_path / "swept").touch()

    assert outputs(slow.result()) == ["0\n"]


def test_a_print_flood_is_cut(launcher):
    outcome = run(launcher, "while True: print('x' * 100)")

    assert outcome.cause == "flood"
    assert len(outcome.ranks[0].stdout) < 10_000


def test_a_stopped_rank_is_killed_at_the_deadline(launcher):
    source = """
        import os, signal
        os.kill(os.getpid(), signal.SIGSTOP)
    """
    outcome = run(launcher, source, timeout=1)

    assert (outcome.cause, outcome.ranks[0].exit) == ("deadline", -signal.SIGKILL)


def test_fresh_interpreters_have_different_hash_seeds_and_a_real_ending(launcher):
    source = """
        import os
        class Ending:
            def __del__(self): os.write(1, b"ended\\n")
        keep = Ending()
        keep.cycle = keep
        print(hash("a") % 1000, os.environ["PYTHONHASHSEED"])
    """
    first, second = outputs(run(launcher, source, ranks=2, start="fresh"))

    assert first.split("\n")[0] != second.split("\n")[0]
    assert first.endswith("ended\n")


def test_a_shell_script_runs_with_python_and_the_project_in_reach(launcher):
    source = "python -c 'import sys, distlab; print(sys.executable)'; echo $RANK; exit 3"
    outcome = launcher.run(Program(source, shell="bash", name="fence.sh"))  # noqa: S604

    assert outcome.ranks[0].stdout == f"{sys.executable}\n\n"
    assert (outcome.cause, outcome.ranks[0].exit) == ("failed", 3)


def test_two_launchers_side_by_side_do_not_meet(launcher):
    with spmd.Launcher() as other:
        futures = [each.submit(Program(dedent(DDP), ranks=2)) for each in (launcher, other) * 3]

        assert all(future.result().cause == "finished" for future in futures)


@pytest.mark.parametrize(
    "options", [{"ranks": 0}, {"ranks": 17}, {"timeout": 0}, {"start": "spawn"},
                {"shell": "bash", "ranks": 2}],
)  # fmt: skip
def test_what_cannot_be_run_is_refused_with_the_rule(options):
    with pytest.raises(ValueError, match=str(list(options.values())[-1])):
        Program("pass", **options)


@pytest.mark.parametrize(
    ("running", "waits", "cores_idle", "room"),
    [
        (COMPUTING - 1, False, 0.0, True),
        (COMPUTING, False, 0.0, False),
        (COMPUTING, False, 0.9, True),
        (MOST, False, 0.9, False),
        (WAITING - 1, True, 0.0, True),
        (WAITING, True, 0.9, False),
    ],
)
def test_programs_are_in_flight_as_far_as_cores_idle(
    tmp_path, monkeypatch, *, running, waits, cores_idle, room
):
    server, program = Server.__new__(Server), Program("pass", waits=waits)
    server.runs = {n: Run(program, tmp_path / str(n), 0) for n in range(running)}
    server.looked = time.monotonic() - 100 * LOOK, 0.0
    monkeypatch.setattr(processes, "idle_seconds", lambda: 100 * LOOK * cores_idle)

    assert server.has_room(program) is room
    if running == COMPUTING:
        assert not server.has_room(program)  # what was started first shows at the next look


def test_the_seconds_that_cores_idle_are_read_from_the_kernel():
    """They grow, and by no more than all cores can idle."""
    before, began = processes.idle_seconds(), time.monotonic()
    time.sleep(0.2)
    idled = processes.idle_seconds() - before

    assert before > 0
    assert 0 <= idled <= (time.monotonic() - began) * os.cpu_count() + 0.1


def test_an_outcome_tells_the_processor_time_of_each_rank_with_its_children(launcher):
    burn = "import time\nwhile time.process_time() < 0.3:\n    pass"
    source = f"""
        import os, subprocess, sys
        if os.environ["RANK"] == "1":
            subprocess.run([sys.executable, "-c", {burn!r}])
    """
    idle, busy = run(launcher, source, ranks=2).ranks

    assert busy.cpu - idle.cpu > 0.2


CALLER = """
    import sys, time
    from distlab import spmd
    launcher = spmd.Launcher()
    source = "import subprocess, time; " \\
             "subprocess.Popen(['sleep', '{mark}'], start_new_session=True); time.sleep(60)"
    launcher.submit(spmd.Program(source, ranks=2))
    launcher.run(spmd.Program("pass"))
    print("ready", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_outlives_a_killed_caller_by_five_seconds(tmp_path, signum):
    mark = f"7{signum:03d}"
    env = os.environ | {"TMPDIR": str(tmp_path), "DISTLAB_TEST": f"caller-{signum}"}
    command = [sys.executable, "-c", dedent(CALLER).replace("{mark}", mark)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env
    ) as caller:
        assert caller.stdout.readline() == b"ready\n"
        assert eventually(lambda: processes_with(f"sleep\0{mark}"), 60)
        caller.send_signal(signum)
        caller.wait(60)

    assert eventually(lambda: not processes_with(f"sleep\0{mark}"))
    assert eventually(lambda: not processes_with(str(tmp_path)))
    assert eventually(lambda: not list(tmp_path.iterdir()))


def test_a_run_leaves_no_file_and_a_closed_launcher_no_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with spmd.Launcher() as launcher:
        run(launcher, "open('left', 'w').write('x')")
        (folder,) = tmp_path.iterdir()

        assert eventually(
            lambda: sorted(path.name for path in folder.iterdir()) == ["server.log", "tmp"]
        )
    assert not list(tmp_path.iterdir())


def test_what_the_server_imports_lies_in_its_folder(launcher):
    """Torch makes a temp folder as it is imported, and a killed server could not remove it."""
    source = "from torch.distributed.nn.jit import instantiator as i; print(i._TEMP_DIR.name)"
    (name,) = outputs(run(launcher, source))

    assert Path(name.strip()).is_relative_to(launcher.folder / "tmp")


def test_a_server_that_dies_fails_its_futures_with_a_sentence():
    with spmd.Launcher() as launcher:
        run(launcher, "pass")
        future, other = (launcher.submit(Program("import time; time.sleep(60)")) for _ in range(2))
        assert eventually(lambda: future.running() and other.running(), 60)
        os.kill(launcher.pid, signal.SIGKILL)

        with pytest.raises(spmd.LauncherError, match="the fork server has ended"):
            future.result(60)
        assert future.exception() is not other.exception(60)
        assert not launcher.alive


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("options", [{}, {"start": "fresh"}, {"shell": "bash"}], ids=str)
def test_what_asks_for_an_end_does_not_end_the_server_but_a_program(launcher, options, signum):
    """Whoever signals all processes ends our caller, too, and then the server must clean up."""
    run(launcher, "pass")
    os.kill(launcher.pid, signum)
    source = f"import os; os.kill(os.getpid(), {signum:d})"
    source = f"kill -{signum:d} $$" if options.get("shell") else source
    (struck,) = run(launcher, source, timeout=30, **options).ranks

    assert launcher.alive
    assert not struck.finished
    if signum == signal.SIGINT and "shell" not in options:
        assert "KeyboardInterrupt" in struck.stderr


def test_what_the_ranks_of_a_killed_server_have_started_ends_as_well():
    """Its ranks die with it, by the kernel; a torchrun in a shell fence would have trained on."""
    source = """
        import subprocess, time
        subprocess.Popen(["sleep", "66"], start_new_session=True)
        time.sleep(60)
    """
    with spmd.Launcher() as launcher:
        future = launcher.submit(Program(dedent(source)))
        assert eventually(lambda: processes_with("sleep\0" + "66"), 60)
        os.kill(launcher.pid, signal.SIGKILL)

        assert eventually(lambda: not processes_with("sleep\0" + "66"))
        with pytest.raises(spmd.LauncherError):
            future.result(60)


def test_what_a_program_finds_does_not_depend_on_the_caller_s_environment(monkeypatch):
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL")
    monkeypatch.setenv("RANK", "7")

    assert not {"TORCH_DISTRIBUTED_DEBUG", "RANK"} & set(spmd.launcher.environment())
    assert Path(spmd.launcher.environment()["PYTHONPATH"]).name == "code"
    assert rank.SEED == 1000


@pytest.mark.parametrize(("queue", "phase"), [(1, "asked"), (8, "running")])
def test_a_deadline_waits_while_processes_queue_for_cores(tmp_path, monkeypatch, queue, phase):
    started = Run(Program("", timeout=10), tmp_path / "run", port=1)
    cores = os.cpu_count()
    monkeypatch.setattr(os, "getloadavg", lambda: (queue * cores, 0.0, 0.0))
    monkeypatch.setattr(time, "monotonic", lambda: started.begun + 11)

    started.advance()

    assert started.phase == phase
