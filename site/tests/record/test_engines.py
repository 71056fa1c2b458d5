"""The page "Slurm, Ray, Kubernetes": recording, scripts, manifest; (marker engines) for real."""

from __future__ import annotations

import ast
import datetime
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from press import evidence
from press.project import COURSE
from record import engines, engines_world, hosts_world, scenario
from record.engines_scenarios import SCENARIOS
from record.scenario import Scenario, Start
from tools.watch import HANG, eventually, processes_with

FOLDER = COURSE / "engines"
PAGE = COURSE / "engines.md"
INCLUDED = re.compile(r"--8<-- \"content/courses/pytorch/engines/([\w.]+)(?::([\w-]+))?\"")
RECORDED = engines.RECORDING.sections()
SCRIPTS = sorted(path for path in FOLDER.iterdir() if path.name != "recording.txt")


def unwrapped(text: str) -> str:
    """Return a text of the recording with the lines as they were."""
    return re.sub(r"(?: \\)?\n {4}", " ", text)


# ---- The recording and the page ------------------------------------------------------------------


def test_every_scenario_is_recorded_and_every_section_shown():
    shown = [section for _, section in INCLUDED.findall(PAGE.read_text()) if section]

    assert list(RECORDED) == list(SCENARIOS)
    assert sorted(shown) == sorted(RECORDED)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_every_file_that_was_run_is_shown_and_can_be_downloaded(path):
    """A world gets its files from the same folder, so what a reader takes along is what ran."""
    text = PAGE.read_text()
    shown = [name for name, section in INCLUDED.findall(text) if not section]

    assert f"(engines/{path.name})" in text
    assert path.name in shown
    assert f"engines/{path.name}" in engines_world.PROGRAMS or path.suffix == ".yaml"


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_recording_is_of_the_scenario_as_it_is_now(name):
    """A scenario that was changed has to be recorded again."""
    text = unwrapped(RECORDED[name])
    steps = [step for step in SCENARIOS[name].steps if hasattr(step, "command")]

    for step in steps:
        assert f"{step.host}{'$' if isinstance(step, Start) else '#'} {step.command}" in text
    for step in (step for step in steps if isinstance(step, Start)):
        assert all(re.search(said, text, re.MULTILINE) for said in step.says), step


@pytest.mark.parametrize("name", ["slurm-srun", "slurm-sbatch", "slurm-torchrun", "ray-lab"])
def test_the_lab_says_ok_under_slurm_and_under_ray(name):
    speaker = "" if name.startswith("slurm") else r"\(RayTrainWorker\) "

    assert re.search(f"^{speaker}ok: every way", RECORDED[name], re.MULTILINE)


def test_the_recording_holds_nothing_of_one_machine():
    text = engines.RECORDING.file.read_text()
    private = re.compile(
        r"0x[0-9a-f]{6,}|/dev/shm|site-packages|/root|/home|\.pyenv|\[\d+(?:\.\d+){3}\]:\d+"
        r"|\x1b|[0-9a-f]{32}"
    )

    assert private.findall(text) == []


def test_the_list_of_sources_has_the_date_of_the_recording():
    day = datetime.date.fromisoformat(evidence.sources()["engines-recording"].accessed)

    for text in RECORDED.values():
        assert f"Recorded on {day.day} {day:%B %Y} with" in text


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_script_can_be_read_by_what_runs_it(path):
    if path.suffix in {".sh", ".sbatch"}:
        assert path.read_text().startswith("#!/bin/sh\n")
        subprocess.run(["sh", "-n", path], check=True)
    elif path.suffix == ".py":
        ast.parse(path.read_text())
    elif path.suffix == ".conf":
        settings = [line.split("=")[0] for line in path.read_text().splitlines() if "=" in line]
        assert {"ClusterName", "SlurmctldHost", "NodeName", "PartitionName"} <= set(settings)


def test_the_cluster_is_made_of_the_two_hosts():
    text = (FOLDER / "slurm.conf").read_text()

    for host in hosts_world.HOSTS:
        assert f"NodeName={host.name} NodeAddr={host.address}" in text


def test_all_scripts_for_slurm_end_all_ranks_when_one_fails_and_have_a_time_limit():
    scripts = list(FOLDER.glob("*.sbatch"))

    assert scripts
    for path in scripts:
        assert "--kill-on-bad-exit=1" in path.read_text()
        assert "#SBATCH --time=" in path.read_text()


# ---- What a page shows of an output --------------------------------------------------------------


def test_what_ray_puts_before_a_line_becomes_the_actors_name():
    said = (
        "\x1b[36m(RayTrainWorker pid=310)\x1b[0m step 1 done\x1b[32m [repeated 3x across cluster]\n"
    )

    assert engines.shorten(said) == "(RayTrainWorker) step 1 done"


def test_tables_and_stacks_stay_and_tracebacks_go():
    stack = 'Thread 108 (idle): "MainThread"\n    load_batch (steps.py:27)'
    raised = (
        "(RayTrainWorker pid=31) Traceback (most recent call last):\n"
        '(RayTrainWorker pid=31)   File "steps.py", line 67, in <module>\n'
        "(RayTrainWorker pid=31) RuntimeError: no\n"
    )

    assert engines.shorten(stack) == stack
    assert engines.shorten(raised) == "(RayTrainWorker) RuntimeError: no"


def test_noise_goes_wherever_it_comes_from():
    lost = "[W1130 08:22:39.84 socket.cpp:200] [c10d] The hostname of the client socket cannot be"

    assert engines.shorten(f"0: {lost} retrieved. err=-3\n0: kept") == "0: kept"
    assert engines.shorten("(X pid=1) Failed to query Ray Train Controller actor state.\nk") == "k"


def test_folders_of_a_world_are_shown_as_the_home_folder():
    assert engines.shorten("see /dev/shm/nodeA/job-1.out") == "see ~/job-1.out"


# ---- The worlds ----------------------------------------------------------------------------------


def test_the_world_of_slurm_has_no_user_namespace_and_every_folder_of_its_own():
    """Slurm changes users; and what its configuration names must not be the machine's."""
    written = re.findall(
        r"(?m)^\w+(?:Location|Dir|File)=(\S+)", (FOLDER / "slurm.conf").read_text()
    )

    assert "--user" not in engines_world.AS_ROOT
    assert {"--pid", "--kill-child", "--mount-proc"} <= set(engines_world.AS_ROOT)
    assert written
    assert all(path.startswith(engines_world.PRIVATE) for path in written)


# ---- Kubernetes ----------------------------------------------------------------------------------

MANIFEST = COURSE / "engines/pytorchjob.yaml"
BROKEN = (
    ("Worker:", "Workers:", "replica"),
    ("Master:", "Chief:", "replica"),
    ("replicas: 1", "replicas: 2", "one Master"),
    ('nprocPerNode: "2"', "nprocPerNode: 2", "text"),
    ("name: pytorch", "name: torch", "container"),
    ("image: pytorch/", "imagePullPolicy: pytorch/", "image"),
    ("name: lab\nspec", "name: Lab_1\nspec", "DNS label"),
)


def broken_rules(manifest: str) -> list[str]:
    """Return which of the page's rules for a PyTorchJob a manifest breaks."""
    job = yaml.safe_load(manifest)
    replicas = job["spec"]["pytorchReplicaSpecs"]
    containers = [c for one in replicas.values() for c in one["template"]["spec"]["containers"]]
    rules = {
        "replica": set(replicas) <= {"Master", "Worker"},
        "one Master": replicas.get("Master", {}).get("replicas") == 1,
        "container": {c["name"] for c in containers} == {"pytorch"},
        "image": all("image" in c for c in containers),
        "DNS label": re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", job["metadata"]["name"]),
        "text": isinstance(job["spec"]["nprocPerNode"], str),
    }
    return [rule for rule, kept in rules.items() if not kept]


def test_the_manifest_keeps_the_rules_that_the_page_names():
    assert broken_rules(MANIFEST.read_text()) == []


@pytest.mark.parametrize(("old", "new", "rule"), BROKEN, ids=[new for _, new, _ in BROKEN])
def test_a_manifest_that_breaks_a_rule_is_noticed(old, new, rule):
    text = MANIFEST.read_text()
    assert old in text

    assert rule in broken_rules(text.replace(old, new))


def test_the_variables_that_were_run_are_those_of_the_manifest():
    """The operator sets nnodes to the sum of the replicas, the rest as it stands there."""
    spec = yaml.safe_load(MANIFEST.read_text())["spec"]
    replicas = spec["pytorchReplicaSpecs"]
    command = replicas["Master"]["template"]["spec"]["containers"][0]["command"]

    for rank, step in enumerate(SCENARIOS["kubernetes-pods"].steps[:2]):
        assert f"PET_NNODES={sum(one['replicas'] for one in replicas.values())} " in step.command
        assert f"PET_NPROC_PER_NODE={spec['nprocPerNode']} " in step.command
        assert f"PET_NODE_RANK={rank} " in step.command
        assert step.command.endswith(" ".join(command).replace("/lab/", ""))


# ---- For real ------------------------------------------------------------------------------------


def playable(name: str) -> Scenario:
    """Return a scenario; skip, aloud, where it cannot be played."""
    if reason := engines.lacking([name]):
        pytest.skip(f"{name} cannot be played here: {reason}")
    return SCENARIOS[name]


@pytest.mark.engines
@pytest.mark.parametrize("name", ["slurm-srun-four", "slurm-impossible", "kubernetes-pods"])
def test_the_scenario_does_what_it_says(name):
    log = engines_world.play(playable(name))

    assert scenario.faults(SCENARIOS[name], log) == []


def traces() -> dict[str, list[str]]:
    """Return what Slurm, munge and Ray could leave on this machine."""
    home = Path.home()
    folders = ["/run/munge", "/var/spool", "/var/log", "/var/log/munge", "/etc/slurm", "/etc/munge"]
    folders += ["/tmp/ray", "/dev/shm", home / ".ray", home / "ray_results"]  # noqa: S108
    return {str(f): sorted(p.name for p in Path(f).glob("*")) for f in folders}


@pytest.mark.engines
@pytest.mark.parametrize(
    ("name", "there"), [("slurm-hang", "python steps.py"), ("ray-hang", "ray::RayTrainWorker")]
)
def test_nothing_is_left_after_sigkill_of_the_recorder(name, there, tmp_path):
    """Killed while ranks run, with all daemons up."""
    playable(name)
    before, mark = traces(), f"DISTLAB_HOSTS={tmp_path}"
    recorder = subprocess.Popen(
        [sys.executable, engines.__file__, name],
        env=os.environ | {"DISTLAB_HOSTS": str(tmp_path), "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
    )
    started = eventually(lambda: any(c.startswith(there) for c in processes_with(mark)), HANG)
    alive = processes_with(mark)
    recorder.send_signal(signal.SIGKILL)
    recorder.wait()

    assert started
    assert len(alive) > 5
    assert eventually(lambda: not processes_with(mark), 10)
    assert traces() == before
    assert list(tmp_path.iterdir()) == []


@pytest.mark.engines
def test_a_scenario_over_its_deadline_is_ended_with_its_daemons(monkeypatch):
    playable("slurm-hang")
    mark = f"{os.getpid()}-engines-deadline"
    monkeypatch.setenv("DISTLAB_HOSTS", mark)

    with pytest.raises(RuntimeError, match="not over after 4 s; ended"):
        engines_world.play(SCENARIOS["slurm-hang"], deadline=4)
    assert eventually(lambda: not processes_with(f"DISTLAB_HOSTS={mark}"), 10)
