"""What `nox -s soak` does in which round: it follows from the seed and the round's number alone."""

from __future__ import annotations

import functools
import random
from dataclasses import dataclass, replace

from distlab.practice import tasks
from press import modules
from press.modules import Module
from soak.programs import PROGRAMS

METHODS = ("spawn", "forkserver", "torchrun")
WORLDS = range(1, 9)
ENDLESS = 10**9
"""Training steps of a lab that only its disturbance ends."""

BUSY = (0, 0, 0, 1, 2, 3)
"""How many processes compute beside a round; one of these."""

SPAN = {"lab": 5.0, "practice": 1.6, "build": 40.0}
"""Seconds from the start of a job within which it is struck: about as long as one takes here."""

DEADLINE = {"lab": 330.0, "practice": 150.0, "build": 900.0, "launcher": 120.0}
"""Seconds that a job may take; a lab gives a silent rank 70, and up to 240 while it imports."""

LEAVE = 30.0
"""Seconds that the rest of a job may take to leave: an import of torch cannot be cut short."""


@dataclass(frozen=True)
class Strike:
    """A disturbance: a signal, to whom, and when.

    signal: "KILL", "TERM", "INT", "STOP", or "PAUSE": stopped, continued a few seconds later
    target: "rank", "parent" or "server", the fork server between them
    rank:   which rank, if it is one (of a build: which of those that run)
    delay:  seconds from the start of the job; later if there is no such process yet
    """

    signal: str
    target: str
    rank: int
    delay: float


@dataclass(frozen=True)
class Plan:
    """One round.

    job:      "lab", "practice", "build", or "launcher": several programs on the one server
    how:      the lab's start method; "solution" or "stub"; the names of the launcher's programs
    module:   the stem of the module whose lab it is
    task:     the exercise's full id
    ranks:    world size of the lab and of the launcher's programs
    steps:    the lab's training steps
    busy:     how many processes compute beside it
    culprits: for each of the launcher's programs, the rank that misbehaves
    moments:  ... and the seconds after which it is struck, if the program waits for that
    """

    seed: int
    number: int
    job: str
    how: str
    module: str = ""
    task: str = ""
    ranks: int = 1
    steps: int = 5
    busy: int = 0
    strike: Strike | None = None
    culprits: tuple[int, ...] = ()
    moments: tuple[float, ...] = ()

    @property
    def disturbance(self) -> tuple[str, str, str]:
        """Return job, target and signal: the key of its rule."""
        job = self.how if self.how == "torchrun" else self.job
        return (job, self.strike.target, self.strike.signal) if self.strike else (job, "", "")

    def __str__(self) -> str:
        what = {"lab": f"lab {self.module} {self.how}, {self.ranks} ranks", "build": "cold build",
                "practice": f"check {self.task} {self.how}",
                "launcher": f"{self.ranks} ranks: {self.how}"}[self.job]  # fmt: skip
        if not self.strike:
            return what
        whom = f"rank {self.strike.rank}" if self.strike.target == "rank" else self.strike.target
        return f"{what}; {self.strike.signal} to {whom} after {self.strike.delay:.1f} s"


DECK = 100
"""Rounds in which every kind comes: 28 labs, two checks of each exercise, 5 cold builds, and
launchers for the rest. A deck is about one module; the next one about the next module."""

STRUCK = {"spawn": 4, "forkserver": 6, "torchrun": 4, "practice": 18, "build": 4}
"""How many cards of each kind are struck in a deck."""


@dataclass(frozen=True)
class Card:
    """What a round will be about: job, how, exercise or world size, and (target, signal) if any."""

    job: str
    how: str
    what: str | int
    strike: tuple[str, str] | None = None


def _random(seed: str) -> random.Random:
    return random.Random(seed)  # noqa: S311 -- to be repeated, not to be secret


@functools.cache
def deck(seed: int, number: int) -> tuple[Card, ...]:
    """Return the cards of a deck, shuffled.

    Every start method comes with every world size, every exercise with its solution and its stub.
    What is struck in a module's even deck is left alone in its next, and the other way round
    (builds: four of five are struck). Each kind's disturbances come in turn, so that few decks hold
    them all.
    """
    module, turn = module_of(number), number // len(modules.everything())
    more = _random(f"{seed} more {number}")
    cards = []
    for method in METHODS:
        # Four more where a lab starts fastest and has a fork server to be struck, too.
        again = 4 if method == "forkserver" else 0
        worlds = [*WORLDS, *(more.choice(WORLDS) for _ in range(again))]
        cards += _struck(seed, turn, method, [Card("lab", method, world) for world in worlds])
    ids = [task.full_id for task in tasks.everything() if task.module == module.number]
    checks = [Card("practice", how, task) for task in ids for how in ("solution", "stub")]
    cards += _struck(seed, turn, "practice", checks)
    cards += [Card("build", "cold", 0)]
    cards += _deal(seed, turn, "build", [Card("build", "cold", 0)] * STRUCK["build"])
    cards += [Card("launcher", "", 0)] * (DECK - len(cards))
    _random(f"{seed} order {number}").shuffle(cards)
    return tuple(cards)


def module_of(deck_number: int) -> Module:
    """Return the module that a deck is about."""
    every = modules.everything()
    return every[deck_number % len(every)]


def _struck(seed: int, turn: int, kind: str, cards: list[Card]) -> list[Card]:
    """Return the cards, every other one with a disturbance; the others in the next deck."""
    hit = [(place + place // 2 + turn) % 2 for place in range(len(cards))]
    struck = _deal(seed, turn, kind, [card for card, h in zip(cards, hit, strict=True) if h])
    return [card for card, h in zip(cards, hit, strict=True) if not h] + struck


def _deal(seed: int, turn: int, kind: str, cards: list[Card]) -> list[Card]:
    """Give each card the next disturbance of its kind."""
    known = disturbances(kind)
    _random(f"{seed} strikes {kind}").shuffle(known)
    first = turn * STRUCK[kind]
    return [replace(c, strike=known[(first + n) % len(known)]) for n, c in enumerate(cards)]


def disturbances(kind: str) -> list[tuple[str, str]]:
    """Return what can be done to a start method, a check or a build: pairs (target, signal)."""
    servers = ("parent",) if kind in ("spawn", "torchrun") else ("parent", "server")
    found = [("rank", signal) for signal in ("KILL", "TERM", "INT", "STOP")]
    return found + [(t, signal) for t in servers for signal in ("KILL", "TERM", "INT", "PAUSE")]


def plan(seed: int, number: int) -> Plan:
    """Return the plan of a round, numbered from 1."""
    card = deck(seed, (number - 1) // DECK)[(number - 1) % DECK]
    rng = _random(f"{seed} round {number}")
    busy = rng.choice(BUSY)
    if card.job == "launcher":
        programs = rng.sample(sorted(PROGRAMS), 4)
        ranks = rng.choice(WORLDS)
        culprits = tuple(rng.randrange(ranks) for _ in programs)
        how = ", ".join(programs)
        moments = tuple(round(rng.uniform(0, 2), 2) for _ in programs)
        return Plan(
            seed, number, card.job, how, ranks=ranks, steps=0, busy=busy, culprits=culprits,
            moments=moments,
        )  # fmt: skip
    ranks = card.what if card.job == "lab" else 4
    strike = _strike(rng, card, ranks) if card.strike else None
    steps = ENDLESS if strike and rng.random() < 0.7 and _ends(strike) else 5
    task = card.what if card.job == "practice" else ""
    module = module_of((number - 1) // DECK).stem if card.job == "lab" else ""
    return Plan(seed, number, card.job, card.how, module, task, ranks, steps, busy, strike)


def _strike(rng: random.Random, card: Card, ranks: int) -> Strike:
    target, signal = card.strike
    if signal == "STOP" and ranks == 1:
        signal = "KILL"  # it has no peer that would time out: torchrun would wait for ever
    return Strike(signal, target, rng.randrange(ranks), round(rng.uniform(0, SPAN[card.job]), 2))


def _ends(strike: Strike) -> bool:
    """Tell whether this disturbance is sure to end a lab that would train on for ever."""
    if strike.target == "rank":  # ranks that the lab starts ignore Ctrl-C
        return strike.signal != "INT"
    if strike.target == "server":  # so does their fork server
        return strike.signal in ("KILL", "TERM")
    return strike.signal != "PAUSE"
