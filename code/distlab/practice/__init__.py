"""Exercises that grade themselves with real ranks: `python -m distlab.practice`.

    cli        the command line, and what it prints
    grader     runs an answer through distlab.spmd and turns what came of it into a Verdict
    verdict    what that is, and the ranks' reports that it is told from
    explain    tells the cause from its consequences
    reading    what can be told from an answer's text alone, before it runs
    tasks      one module per exercise: what it asks, its hints, and the cases it is run through
    bench      on each rank: runs the cases, compares, and reports in lines that prints cannot forge
    recorder   on each rank: notes every call of torch.distributed and the bytes it moves

Only bench, recorder and the `run` functions of the tasks import torch; the command line does not.
"""
