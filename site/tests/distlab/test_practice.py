"""The exercises' grader: solutions pass, stubs and wrong answers fail with words meant for them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import pytest

from distlab.practice import cli, grader, places, tasks
from modules.parts import WrongAnswer
from press import modules

pytestmark = pytest.mark.slow  # new interpreters by the dozen

WRONG_ANSWERS = [
    replace(wrong, task=f"{module.number}/{wrong.task}")
    for module in modules.with_exercises()
    for wrong in module.load("wrong_answers").WRONG_ANSWERS
]

TASKS = tasks.everything()
IDS = [task.full_id for task in TASKS]
FIRST = tasks.find("26/1")

HANG = 4.0
"""Seconds until a wrong answer that shall hang is ended; all others have the learner's deadline."""


@pytest.fixture(scope="module")
def ranks():
    """Start the fork server that a learner's checks run on."""
    with grader.launcher() as launcher:
        yield launcher


@pytest.fixture(scope="module")
def verdicts(ranks, request):
    """Start the check of every wrong answer that is asked for; the tests wait one by one."""
    tests = [getattr(item, "callspec", None) for item in request.session.items]
    asked = [test.params["wrong"] for test in tests if test and "wrong" in test.params]
    asked = [wrong for wrong in asked if isinstance(wrong, WrongAnswer)]
    return {_key(wrong): _start(ranks, wrong) for wrong in asked}


def _key(wrong) -> str:
    return f"{wrong.task} {wrong.name}"


def _text(wrong) -> str:
    text = places.solution(tasks.find(wrong.task)).read_text()
    for old, new in wrong.edits:
        assert old in text, f"{_key(wrong)}: the solution no longer holds {old!r}"
        text = text.replace(old, new, 1)
    return text


def _start(ranks, wrong):
    deadline = HANG if re.search("hang|endless", wrong.kind) else grader.DEADLINE
    return grader.start(ranks, tasks.find(wrong.task), _text(wrong), (wrong.ranks,), deadline)


@pytest.mark.parametrize("wrong", WRONG_ANSWERS, ids=_key)
def test_a_wrong_answer_is_told_what_it_needs_to_hear(verdicts, wrong):
    verdict = verdicts[_key(wrong)]()
    report = cli.report(tasks.find(wrong.task), verdict)

    assert not verdict.passed
    assert verdict.kind in wrong.kind.split("|"), report
    assert any(words in report for words in wrong.says.split("|")), report
    assert "Traceback" not in report
    assert "distlab/" not in report, "the grader shows a place of its own"


def test_there_are_enough_wrong_answers_and_their_words_differ():
    """Task 11 is one task: its bugs are counted together."""
    words: dict[str, set[str]] = {}
    for wrong in WRONG_ANSWERS:
        words.setdefault(wrong.task.partition(".")[0], set()).add(wrong.says)

    assert words.keys() == {task.partition(".")[0] for task in IDS}
    assert {task for task, said in words.items() if len(said) < 4} == set()
    assert max(Counter(map(_key, WRONG_ANSWERS)).values()) == 1


@pytest.mark.parametrize("task", TASKS, ids=IDS)
def test_a_solution_passes_on_one_to_four_ranks(ranks, task):
    text = places.solution(task).read_text()
    verdict = grader.check(ranks, task, text, (1, 2, 3, 4), deadline=30)

    assert verdict.passed, cli.report(task, verdict)
    assert verdict.headline == "passed on 1, 2, 3 and 4 ranks"


@pytest.mark.parametrize("task", TASKS, ids=IDS)
def test_an_untouched_stub_fails_and_says_how_to_begin(ranks, task):
    verdict = grader.check(ranks, task, places.original(task).read_text(), (2,))
    report = cli.report(task, verdict)

    assert (verdict.passed, verdict.kind) == (False, "stub"), report
    begin = "set DIAGNOSIS to the letter" if task.answer else f"`hint {tasks.spelling(task)}` asks"
    assert begin in report


def test_an_answer_cannot_print_its_way_through(ranks):
    """Lines that look like reports, with a token of their own making, are only prints."""
    text = places.original(FIRST).read_text()
    forged = '    print("0123456789abcdef {\\"event\\": \\"done\\"}")\n    return\n'
    verdict = grader.check(
        ranks, FIRST, text.replace("    raise NotImplementedError\n", forged), (2,)
    )

    assert verdict.kind == "value"
    assert '"done"' in dict(verdict.printed)["ranks 0-1"]


def test_what_an_answer_prints_is_shown_to_it(ranks):
    text = places.solution(FIRST).read_text()
    text = text.replace("    rank = dist", '    print("tensor", tensor.shape)\n    rank = dist')
    text = text.replace("dist.recv(tensor, src)", "dist.recv(tensor.clone(), src)")
    report = cli.report(FIRST, grader.check(ranks, FIRST, text, (2,)))

    assert "your code printed:\n    [ranks 0-1] tensor torch.Size([5])" in report


OWN = """
import importlib.util
import torch
import torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from distlab.practice.tasks.m26 import replicas

spec = importlib.util.spec_from_file_location("answer", "answer.py")
answer = importlib.util.module_from_spec(spec)
spec.loader.exec_module(answer)
dist.init_process_group("gloo")
rank = dist.get_rank()


def optimizers(theirs, ours):
    if hasattr(answer, "ShardedOptimizer"):
        options = dict(lr=0.05, weight_decay=0.1)
        trainable = [[p for p in m.parameters() if p.requires_grad] for m in (theirs, ours)]
        return (
            ZeroRedundancyOptimizer(trainable[0], torch.optim.AdamW, **options),
            answer.ShardedOptimizer(trainable[1], torch.optim.AdamW, **options),
        )
    return replicas.optimizer_of(theirs), replicas.optimizer_of(ours)


def wrapped(module):
    if hasattr(answer, "OverlappedDDP"):
        return answer.OverlappedDDP(module, 300)
    for name in ("NaiveDDP", "FlatDDP"):
        if hasattr(answer, name):
            return getattr(answer, name)(module)
    return DistributedDataParallel(module, find_unused_parameters=True)


for kind in (replicas.Plain, replicas.Tangled):
    models = [replicas.model_of(kind, rank) for _ in range(2)]
    if hasattr(answer, "ShardedOptimizer"):  # ZeroRedundancyOptimizer takes a single dtype
        models = [model.double() for model in models]
    theirs = DistributedDataParallel(models[0], find_unused_parameters=True)
    ours = wrapped(models[1])
    for step in range(5):
        if step == 0:
            both = optimizers(*models)
        for wrapper, optimizer in zip((theirs, ours), both):
            optimizer.zero_grad()
            replicas.loss_of(wrapper, rank, step).backward()
            if hasattr(wrapper, "finish_gradients"):
                wrapper.finish_gradients()
        for (name, a), (_, b) in zip(*(m.named_parameters() for m in models)):
            assert (a.grad is None) == (b.grad is None), name
        for optimizer in both:
            optimizer.step()
        for (name, a), (_, b) in zip(*(m.named_parameters() for m in models)):
            torch.testing.assert_close(a, b, rtol=1e-12 if a.dtype == torch.float64 else 1e-6,
                                       atol=1e-12 if a.dtype == torch.float64 else 1e-6)
            copies = [torch.empty_like(b) for _ in range(dist.get_world_size())]
            dist.all_gather(copies, b.detach())
            assert all(torch.equal(copy, copies[0]) for copy in copies), name
dist.barrier()
dist.destroy_process_group()
print("as PyTorch's own")
"""


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("task", ["26/4", "26/5", "26/6", "26/10"])
def test_a_solution_behaves_like_pytorchs_own(launcher, task, world):
    """Five steps on tied, frozen and unused parameters: same gradients, same bits on all ranks."""
    from distlab import spmd

    text = places.solution(tasks.find(task)).read_text()
    program = spmd.Program(OWN, ranks=world, timeout=60, files=(("answer.py", text),))
    outcome = launcher.run(program)

    assert outcome.cause == "finished", [rank.stderr[-2000:] for rank in outcome.ranks]
    assert all("as PyTorch's own" in rank.stdout for rank in outcome.ranks)
