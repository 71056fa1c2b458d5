"""The page "Launching": its recording, how a run is shown, and (marker hosts) two real hosts."""

from __future__ import annotations

import datetime
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from press import evidence
from press.project import COURSE
from record import hosts_world, launching, scenario
from record.launching_scenarios import SCENARIOS
from record.scenario import Admin, Done, Finish, Ran, Scenario, Start
from tools.watch import HANG, eventually, processes_with

PAGE = COURSE / "launching.md"
INCLUDED = re.compile(r"--8<-- \"content/courses/pytorch/launching/recording\.txt:([\w-]+)\"")


def ran(output: str = "", exit: int | None = 0, began: float = 0.0, host: str = "nodeA", **step):  # noqa: A002
    """Return what came of a command, made up."""
    return Ran(Start(host, "train", **step), output, exit, began, 5.0)


def unwrapped(text: str) -> str:
    """Return a text of the recording with the lines as they were."""
    return re.sub(r"(?: \\)?\n {4}", " ", text)


# ---- The recording -------------------------------------------------------------------------------


def test_every_scenario_is_recorded_and_every_section_shown():
    names = {name.removesuffix("-fixed") for name in launching.RECORDING.sections()}
    shown = INCLUDED.findall(PAGE.read_text())

    assert names == set(SCENARIOS)
    assert sorted(shown) == sorted(launching.RECORDING.sections())


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_recording_is_of_the_scenario_as_it_is_now(name):
    """A scenario that was changed has to be recorded again."""
    found = launching.RECORDING.sections()
    text = unwrapped(found[name] + found.get(f"{name}-fixed", ""))
    steps = [step for step in SCENARIOS[name].steps if hasattr(step, "command")]

    for step in steps:
        for line in step.command.splitlines():
            assert f"{step.host}{'$' if isinstance(step, Start) else '#'} {line}" in text
    for step in (step for step in steps if isinstance(step, Start)):
        assert all(re.search(said, text, re.MULTILINE) for said in step.says), step


def test_the_recording_holds_nothing_of_one_machine():
    text = launching.RECORDING.file.read_text()
    private = re.compile(r"0x[0-9a-f]{6,}|/dev/shm|site-packages|\[\d+\.\d+\.\d+\.\d+\]:\d+|fdff:")

    assert private.findall(text) == []
    assert re.findall(r"pid: \d+", text) == []


def test_the_list_of_sources_has_the_date_of_the_recording():
    day = datetime.date.fromisoformat(evidence.sources()["hosts-recording"].accessed)

    assert f"Recorded on {day.day} {day:%B %Y} with" in launching.RECORDING.file.read_text()


def test_a_resumed_run_ends_where_one_without_a_break_does():
    """The same 12 steps on the same two ranks, with and without a pulled cable."""
    found = launching.RECORDING.sections()
    ends = [
        set(re.findall(r"12 steps, weights sum to (\S+)", found[name]))
        for name in ("cable-fixed", "cable-short", "restart", "restart-static")
    ]

    assert all(ends)
    assert len(set.union(*ends)) == 1


# ---- What a page shows of an output --------------------------------------------------------------


def test_stacks_and_noise_are_left_out_and_errors_stay():
    said = (
        "[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "/dev/shm/nodeB/train.py", line 8, in <module>\n'
        "[rank1]:     train()\n"
        "[rank1]: RuntimeError: Timed out waiting 8000ms\n"
        "frame #3: <unknown function> + 0x5dde324\n"
        "[Gloo] Rank [Gloo] Rank 3 is connected to 3\n"
        "[W1130 04:37:36.571681214 socket.cpp:200] [c10d] The hostname of the client socket "
        "cannot be retrieved. err=-3\n"
    )

    assert launching.shorten(said) == "RuntimeError: Timed out waiting 8000ms"


def test_lines_that_differ_only_in_what_varies_are_counted():
    line = "[W1130 04:37:{0}.5716 socket.cpp:755] failed to connect to {1} (errno: 113).\n"
    said = line.format(40, "[fdff:ffff:5:0:75:6:7:0]:27652") + line.format(43, "186.85.0.0:276")

    assert launching.shorten(said) == (
        "[W socket.cpp:755] failed to connect to (garbage) (errno: 113).  (2 times)"
    )


def test_addresses_of_the_hosts_stay_without_their_ports():
    said = "remote=[10.66.0.2]:4711$0, (10.66.0.9, 29500), [127.0.0.1]:33\n"

    assert launching.shorten(said) == "remote=[10.66.0.2]:PORT, (10.66.0.9, PORT), [127.0.0.1]:PORT"


def test_long_lines_are_cut():
    assert launching.shorten("x" * 1000) == "x" * launching.LONGEST + "…"


def test_lines_are_broken_at_spaces_only():
    command = "torchrun " + " ".join(f"--option-{n}=value" for n in range(9))

    assert max(map(len, launching.wrap(command, " \\").splitlines())) <= launching.WIDTH
    assert unwrapped(launching.wrap(command, " \\")) == command
    assert unwrapped(launching.wrap(command)) == command
    assert launching.wrap("a  b") == "a  b"


def test_a_log_is_split_where_everything_had_ended():
    cable = Done(Admin("nodeA", "pull"), 3.0)
    again = Done(Admin("nodeA", "plug"), 6.0)
    log = [ran(), ran(host="nodeB"), cable, again, ran(began=6.1)]

    assert launching.phases(log) == [log[:3], log[3:]]


# ---- A scenario that does not do what it says ----------------------------------------------------


def test_a_wrong_exit_status_and_a_missing_text_are_faults():
    one = Scenario("x", (Start("nodeA", "train", ("ok",), 0),))
    good = ran("all ok", 0, says=("ok",))

    assert scenario.faults(one, [good]) == []
    assert "exit status 1, not 0" in scenario.faults(one, [replace(good, exit=1)])[0]
    assert "exit status None" in scenario.faults(one, [replace(good, exit=None)])[0]
    assert "no line matches" in scenario.faults(one, [replace(good, output="no")])[0]
    assert "do not match its steps" in scenario.faults(one, [])[0]


def test_a_scenario_survives_its_way_into_the_world():
    for one in SCENARIOS.values():
        packed = scenario.unpack(scenario.pack(one))
        assert scenario.pack(packed) == scenario.pack(one)


# ---- Two hosts -----------------------------------------------------------------------------------


@pytest.fixture
def two_hosts():
    """Skip, aloud, where no world can be made."""
    if reason := hosts_world.lacking():
        pytest.skip(f"no two hosts can be made here: {reason}")


@pytest.mark.hosts
@pytest.mark.parametrize("name", ["static", "c10d", "never"])
def test_the_scenario_does_what_it_says(two_hosts, name):
    log = hosts_world.play(SCENARIOS[name])

    assert scenario.faults(SCENARIOS[name], log) == []
    assert launching.sections(SCENARIOS[name], log).keys() == {name}


def machine() -> dict[str, object]:
    """Return what a world could leave behind on this machine."""
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    named = [Path("/run/netns"), Path("/etc/netns"), Path("/dev/shm")]  # noqa: S108
    return {
        "links": sorted(re.findall(r"^\d+: (\S+):", links, re.MULTILINE)),
        "names": [sorted(p.name for p in folder.glob("*")) for folder in named],
        "hosts": Path("/etc/hosts").read_text(),
        "name": os.uname().nodename,
    }


@pytest.mark.hosts
def test_nothing_is_left_after_sigkill_of_the_recorder(two_hosts, tmp_path):
    before, mark = machine(), f"DISTLAB_HOSTS={tmp_path}"
    recorder = subprocess.Popen(
        [sys.executable, launching.__file__, "never"],
        env=os.environ | {"DISTLAB_HOSTS": str(tmp_path), "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
    )
    started = eventually(
        lambda: any("torchrun" in c and "sh -c" not in c for c in processes_with(mark)), HANG
    )
    recorder.send_signal(signal.SIGKILL)
    recorder.wait()

    assert started
    assert eventually(lambda: not processes_with(mark), 10)
    assert machine() == before
    assert list(tmp_path.iterdir()) == []


@pytest.mark.hosts
def test_a_scenario_over_its_deadline_is_ended_with_all_it_started(two_hosts, monkeypatch):
    mark = f"{os.getpid()}-deadline"
    monkeypatch.setenv("DISTLAB_HOSTS", mark)

    with pytest.raises(RuntimeError, match="not over after 6 s; ended"):
        hosts_world.play(SCENARIOS["never"], deadline=6)
    assert eventually(lambda: not processes_with(f"DISTLAB_HOSTS={mark}"), 10)


def say(host: str, command: str) -> str:
    """Return what a command prints on a host."""
    one = Scenario("say", (Start(host, command), Finish(200)))
    (log,) = hosts_world.play(one, deadline=220)
    return log.output


@pytest.mark.hosts
def test_a_host_has_a_name_a_cable_and_no_way_out(two_hosts):
    said = say("nodeB", "hostname; ls /sys/class/net 2>&1; ip -o -4 addr; ip route; id -u")

    assert said.startswith("nodeB\n")
    assert "enp1s0    inet 10.66.0.2/24" in said
    assert "default" not in said


@pytest.mark.hosts
def test_files_of_a_world_are_gone_with_it(two_hosts):
    assert say("nodeA", "touch /dev/shm/mine $TMPDIR/mine; ls /dev/shm").split() == [
        "hosts", "mine", "nodeA", "nodeB",
    ]  # fmt: skip
    assert not Path("/dev/shm/mine").exists()  # noqa: S108
