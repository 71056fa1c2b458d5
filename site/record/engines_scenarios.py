"""What is played for the page "Engines": every scenario, as data."""

from __future__ import annotations

from record.engines_world import UP
from record.scenario import Admin, Finish, Pause, Start, Step, Until, scenario

LAB = "26_ddp_gloo.py --torchrun"
JOBS = 'squeue --format="%i %j %T %M %R"'
DONE = "while squeue --noheader | grep -q .; do sleep 1; done"
OF_RAY = "pgrep -af '^ray::'"
WORKERS = "pgrep -af '^ray::RayTrainWorker'"
ENDED = "\0"  # nobody prints it: who waits for it waits for the end
RANKS = "pgrep -af '^python steps.py'"


def start(command: str, *says: str, host: str = "nodeA", exit: int | None = 0) -> list[Step]:  # noqa: A002
    """Start a command and wait for its end."""
    return [Start(host, command, says, exit), Finish(120)]


def srun(program: str, n: int = 1, more: str = "") -> str:
    """Return the command that runs a program on n ranks of each node, now or not at all."""
    words = f"srun -N2 --ntasks-per-node={n} --immediate=10 {more} sh rank.sh python {program}"
    return " ".join(words.split())


def sbatch(program: str) -> str:
    """Return the command that submits a program on a rank of each node; output in job-ID.out."""
    return (
        "sbatch -N2 --ntasks-per-node=1 --output=job-%j.out "
        f'--wrap "srun --label sh rank.sh python {program}"'
    )


def ray(program: str, *says: str, before: str = "", exit: int | None = 0) -> Start:  # noqa: A002
    """Start a program under Ray."""
    return Start("laptop", f"{before} python ray_ranks.py {program}".strip(), says, exit)


STANDS = [
    *start(sbatch("steps.py --stand-at 6"), "Submitted batch job 1"),
    *start("until grep -qs 'step 6 done' job-1.out; do sleep 1; done"),
    Pause(2),
]


HANGS = [Until("laptop", "step 6 done", 240), Pause(2)]
KILLED = [
    ray("steps.py --stand-at 6", "step 6 done", exit=137),
    HANGS,
    Start("laptop", "pkill -KILL -f '^python ray_ranks.py'"),
    Finish(20),
    Pause(30),
]


def pod(rank: int) -> Start:
    """Start what a pod of the manifest starts, with the variables that the operator sets."""
    variables = (
        f"PET_NNODES=2 PET_NODE_RANK={rank} PET_NPROC_PER_NODE=2 "
        "PET_MASTER_ADDR=nodeA PET_MASTER_PORT=23456"
    )
    says = ("^ok: ",) if rank == 0 else ()
    return Start(f"node{'AB'[rank]}", f"{variables} torchrun {LAB}", says)


ALL = (
    scenario(
        "slurm-cluster",
        [Admin(host, command) for host, command in UP],
        Pause(3),
        start('sinfo -N --format="%N %T %c %m"', "nodeA idle 2", "nodeB idle 2"),
        start("srun -N2 --label hostname", "0: nodeA", "1: nodeB"),
    ),
    scenario("slurm-srun", start(srun(LAB), r"^ok: .*world size 2")),
    scenario("slurm-srun-four", start(f"{srun(LAB, 2)} | tail -n 1", r"^ok: .*world size 4")),
    scenario(
        "slurm-sbatch",
        start("sbatch lab.sbatch", "Submitted batch job 1"),
        Pause(3),
        start(JOBS, "1 lab RUNNING"),
        start(f"{DONE}; tail -n 2 lab-1.out", r"^ok: .*world size 4"),
    ),
    scenario(
        "slurm-torchrun",
        start("sbatch torchrun.sbatch", "Submitted batch job 1"),
        start(f"{DONE}; grep ok: torchrun-1.out", r"^ok: .*world size 4"),
    ),
    scenario(
        "slurm-killed",
        start(
            f'{srun("steps.py --die-at 3", more="-K1")} || echo "exit status $?"',
            "task 1: Killed",
            "exit status 1(37|43)",
        ),
    ),
    scenario(
        "slurm-hang",
        STANDS,
        start(JOBS, "1 wrap RUNNING"),
        start("sh stacks.sh 1", "== rank 0", "== rank 1", "load_batch"),
    ),
    scenario(
        "slurm-signal",
        STANDS,
        start(
            "scancel --signal=USR1 1; sleep 2; tail -n 10 job-1.out | sort -sn", "1: .*load_batch"
        ),
    ),
    scenario(
        "slurm-stop",
        STANDS,
        start(RANKS, "python steps.py"),
        start("scancel 1; sleep 3; squeue --noheader"),
        start(f'{RANKS} || echo "no rank is left"', "no rank is left"),
        start("tail -n 3 job-1.out", "CANCELLED|Terminated"),
    ),
    scenario(
        "slurm-impossible",
        start("sbatch -N2 --ntasks-per-node=3 --wrap hostname", "Submitted batch job 1"),
        Pause(4),
        start('squeue --format="%i %T %r"', "1 PENDING PartitionConfig"),
        start('sinfo --format="%N %D %c"', "nodeA,nodeB 2 2"),
        start("scancel 1"),
        start(
            "srun -N2 --ntasks-per-node=3 --immediate=5 hostname",
            "Unable to allocate resources",
            exit=1,
        ),
        start(
            "sbatch --test-only -N2 --ntasks-per-node=3 --wrap hostname",
            "Requested node configuration is not available",
            exit=1,
        ),
    ),
    scenario(
        "ray-lab",
        ray(LAB, "ok: .*world size 2"),
        Finish(200),
        start("grep -h ok: ray/session_latest/logs/worker-*.out", "^ok: ", host="laptop"),
        start("ls ray/session_latest/logs/train", host="laptop"),
        start("ls -d ~/.ray", "No such file", host="laptop", exit=2),
    ),
    scenario(
        "ray-killed",
        ray("steps.py --die-at 3", "WorkerGroupError", "OOM killer", exit=1),
        Finish(250),
    ),
    scenario(
        "ray-restart",
        ray("steps.py --die-at 3", "starts at step 3", "rank 0: ok", before="MAX_FAILURES=1"),
        Finish(300),
    ),
    scenario(
        "ray-hang",
        ray("steps.py --stand-at 6", "step 6 done", "Received SIGINT", exit=1),
        HANGS,
        Start("laptop", "sh ray_stacks.sh", ("load_batch", "_engine_run_backward")),
        Until("laptop", ENDED),
        Start("laptop", "pkill -INT -f '^python ray_ranks.py'"),
        Finish(90),
        Pause(15),
        start(f"{OF_RAY} || echo 'nothing is left'", "^nothing is left", host="laptop"),
    ),
    scenario(
        "ray-stop",
        *KILLED,
        start(f"{WORKERS} || echo 'no rank is left'", "^no rank is left", host="laptop"),
        start(f"{OF_RAY} || echo 'nothing is left'", host="laptop"),
        start("ray stop --force >stop.log 2>&1", host="laptop"),
        start(f"{OF_RAY} || echo 'nothing is left'", "^nothing is left", host="laptop"),
    ),
    scenario(
        "ray-stop-no-init",
        *KILLED,
        start(WORKERS, "RayTrainWorker\\n.*RayTrainWorker", host="laptop"),
        start("ray stop --force >stop.log 2>&1", host="laptop"),
        start(f"{WORKERS} || echo 'no rank is left'", "^no rank is left", host="laptop"),
    ),
    scenario("kubernetes-pods", pod(0), pod(1), Finish(120)),
)
SCENARIOS = {one.name: one for one in ALL}
