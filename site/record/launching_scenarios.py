"""What is played on two hosts: every scenario of the page "Launching", as data."""

from __future__ import annotations

from collections.abc import Callable

from record.scenario import Admin, Finish, Pause, Start, Step, Until, scenario

LAB = "26_ddp_gloo.py --torchrun"
IMPATIENT = "--rdzv_conf timeout=15"  # the launcher's patience; its default would bore a reader
C10D = "torchrun --nnodes=2 --nproc_per_node={n} --rdzv_backend=c10d --rdzv_endpoint=nodeA:29400"
FIREWALL = (
    "nft add table inet site\nnft add chain inet site in '{ type filter hook input priority 0; }'\n"
)


def static(program: str, rank: int, n: int = 1, master: str = "nodeA", more: str = "") -> str:
    """Return a command line for the static rendezvous."""
    words = (
        f"torchrun --nnodes=2 --node_rank={rank} --nproc_per_node={n} --master_addr={master} "
        f"--master_port=29500 {more} {program}"
    )
    return " ".join(words.split())


def c10d(program: str, n: int = 1, more: str = "") -> str:
    """Return a command line for the c10d rendezvous: the same on every host."""
    return " ".join(f"{C10D.format(n=n)} {more} {program}".split())


def both(
    make: Callable[[int], str],
    a: tuple[str, ...] = (),
    b: tuple[str, ...] = (),
    exits: tuple[int | None, int | None] = (0, 0),
    before: tuple[str, str] = ("", ""),
) -> list[Step]:
    """Start a command on each host.

    make:   returns the command of a node rank
    a, b:   what it must say on nodeA and on nodeB
    exits:  its exit statuses
    before: variables that are set for it
    """
    return [
        Start("nodeA", f"{before[0]} {make(0)}".strip(), a, exits[0]),
        Start("nodeB", f"{before[1]} {make(1)}".strip(), b, exits[1]),
    ]


def works(make: Callable[[int], str], before: tuple[str, str] = ("", "")) -> list[Step]:
    """Train on both hosts, and see both say so."""
    return [*both(make, ("rank 0: ok",), ("rank 1: ok",), before=before), Finish()]


PLAIN = "train.py"
FEW = "train.py --timeout 4"
LONG = "train.py --steps 12 --pace 0.2 --timeout 8"
CUT = ("Timed out waiting 8000ms for (recv|send) operation",)
INTERFACES = ("GLOO_SOCKET_IFNAME=eth0", "GLOO_SOCKET_IFNAME=enp1s0")

ALL = (
    scenario("static", both(lambda r: static(LAB, r, 2), ("ok: ",)), Finish()),
    scenario("c10d", both(lambda _: c10d(LAB, 2), ("ok: ",)), Finish()),
    scenario("environment-static", both(lambda r: static("environment.py", r, 2)), Finish()),
    scenario("environment-c10d", both(lambda _: c10d("environment.py", 2)), Finish()),
    scenario(
        "no-names",
        both(
            lambda r: static(FEW, r, master="10.66.0.1"),
            ("Unable to resolve hostname", "connectFullMesh failed"),
            ("Unable to resolve hostname", "connectFullMesh failed"),
            exits=(1, 1),
        ),
        Finish(60),
        works(lambda r: static(PLAIN, r, master="10.66.0.1"), INTERFACES),
        names=False,
    ),
    scenario(
        "wrong-interface",
        both(
            lambda r: static(FEW, r),
            (r"wait timeout after 4000ms, keys: .*/1$",),
            ("Unable to find address for: eth0",),
            exits=(1, 1),
            before=("GLOO_SOCKET_IFNAME=eth0",) * 2,
        ),
        Finish(60),
        works(lambda r: static(PLAIN, r), INTERFACES),
    ),
    scenario(
        "loopback",
        both(
            lambda r: static(FEW, r),
            ("connectFullMesh failed",),
            ("connectFullMesh failed",),
            exits=(1, 1),
            before=("GLOO_SOCKET_IFNAME=lo",) * 2,
        ),
        Finish(60),
    ),
    scenario(
        "wrong-master",
        both(
            lambda r: static(PLAIN, r, master="10.66.0.9", more=IMPATIENT),
            ("No route to host",),
            ("No route to host",),
            exits=(1, 1),
        ),
        Finish(60),
    ),
    scenario(
        "localhost",
        both(
            lambda r: static(PLAIN, r, master="127.0.0.1", more=IMPATIENT),
            ("1/2 clients joined",),
            (r"timed out after \d+ms while trying to connect to \(127.0.0.1",),
            exits=(1, 1),
        ),
        Finish(60),
    ),
    scenario(
        "blocked-master",
        Admin("nodeA", FIREWALL + "nft add rule inet site in iif eth0 tcp dport 29500 drop"),
        both(
            lambda r: static(PLAIN, r, more=IMPATIENT),
            ("1/2 clients joined",),
            ("client socket has timed out",),
            exits=(1, 1),
        ),
        Finish(60),
        Admin("nodeA", "nft insert rule inet site in tcp dport 29500 accept"),
        works(lambda r: static(PLAIN, r, more=IMPATIENT)),
    ),
    scenario(
        "blocked-data",
        Admin(
            "nodeA",
            FIREWALL + "nft add rule inet site in iif eth0 ct state established accept\n"
            "nft add rule inet site in iif eth0 tcp dport 29500 accept\n"
            "nft add rule inet site in iif eth0 drop",
        ),
        both(
            lambda r: static(FEW, r),
            ("connectFullMesh failed .* Connect timeout",),
            ("connectFullMesh failed .* Connect timeout",),
            exits=(1, 1),
        ),
        Finish(60),
        Admin("nodeA", "nft insert rule inet site in ip saddr 10.66.0.0/24 accept"),
        works(lambda r: static(PLAIN, r)),
    ),
    scenario(
        "late",
        Start("nodeA", static(PLAIN, 0), ("rank 0: ok",)),
        Pause(30),
        Start("nodeB", static(PLAIN, 1), ("rank 1: ok",)),
        Finish(),
    ),
    scenario(
        "never",
        Start("nodeA", static(PLAIN, 0, more=IMPATIENT), ("1/2 clients joined",), 1),
        Finish(60),
    ),
    scenario(
        "never-c10d",
        Start(
            "nodeA", c10d(PLAIN, more="--rdzv_conf join_timeout=15"), ("RendezvousTimeoutError",), 1
        ),
        Finish(60),
    ),
    scenario(
        "cable",
        both(lambda r: static(LONG, r), CUT, CUT, (1, 1)),
        Until("nodeA", "step 5 done"),
        Admin("nodeA", "ip link set eth0 down"),
        Finish(45),
        Admin("nodeA", "ip link set eth0 up"),
        both(
            lambda r: static(LONG, r),
            ("resumes at step", "rank 0: ok"),
            ("resumes at step", "rank 1: ok"),
        ),
        Finish(),
    ),
    scenario(
        "cable-c10d",
        both(lambda _: c10d(LONG), CUT, CUT, exits=(1, None)),
        Until("nodeA", "step 5 done"),
        Admin("nodeA", "ip link set eth0 down"),
        Finish(45),
    ),
    scenario(
        "cable-short",
        both(lambda r: static(LONG, r), ("rank 0: ok",), ("rank 1: ok",)),
        Until("nodeA", "step 5 done"),
        Admin("nodeA", "ip link set eth0 down"),
        Pause(3),
        Admin("nodeA", "ip link set eth0 up"),
        Finish(),
    ),
    scenario(
        "restart",
        both(
            lambda _: c10d(f"{LONG} --die-at 5", more="--max-restarts=3"),
            ("resumes at step", "rank 0: ok"),
            ("resumes at step", "rank 1: ok"),
            before=("TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1",) * 2,
        ),
        Finish(120),
    ),
    scenario(
        "restart-static",
        both(
            lambda r: static(f"{LONG} --die-at 5", r, more="--max-restarts=3"),
            ("resumes at step", "rank 0: ok"),
            ("resumes at step", "rank 1: ok"),
            before=("TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1",) * 2,
        ),
        Finish(120),
    ),
)
SCENARIOS = {one.name: one for one in ALL}
