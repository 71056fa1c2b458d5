"""What each exhibit of the museum shows, broken and fixed, as regular expressions.

They are looked for in `museum.said`: all output and stacks, each line after its rank.
"""

from __future__ import annotations

GONE = r"(Connection closed by peer|Connection reset by peer|Application timeout caused)"
REDUCER = r"RuntimeError: Expected to have finished reduction in the prior iteration"


def on(ranks: str, line: str) -> tuple[str, ...]:
    """Return one pattern for each rank of "013": the rank has a line that contains `line`."""
    return tuple(rf"^{rank}: .*{line}" for rank in ranks)


BROKEN: dict[str, tuple[str, ...]] = {
    # hangs: where the ranks stood
    "rank0-only": (*on("0", r"dist\.all_reduce\(loss\)$"), *on("12", r"dist\.barrier\(\)$")),
    "order": (*on("0", r"dist\.broadcast\(weights"), *on("1", r"dist\.all_reduce\(loss\)")),
    "who": (*on("013", r"dist\.barrier\(\)"), *on("2", r"time\.sleep\(60\)")),
    "group-members": (*on("02", r"pair = dist\.new_group"), *on("1", r"dist\.barrier\(\)")),
    "group-timeout": (
        *on("0", r"dist\.all_reduce\("),
        *on("1", r"time\.sleep\(60\)"),
        r"\A(?!(?:.*\n)*.*Timed out)",
    ),
    "uneven": (
        *on("0", r"model\(batch\)\.sum\(\)\.backward\(\)"),
        *on("1", r"dist\.barrier\(\)"),
        *on("01", "finished step 1"),
    ),
    "eval-forward": (*on("0", r"model\(torch\.zeros"), *on("1", r"dist\.barrier\(\)")),
    "finally": (
        *on("0", r"dist\.all_reduce\("),
        *on("1", r"dist\.barrier\(\)"),
        r"\A(?!(?:.*\n)*.*ValueError: )",
    ),
    # errors: who says what
    "raised": (*on("2", "ValueError: bad sample 1234"), *on("013", GONE)),
    "sizes": (
        *on("0", r"op\.preamble\.length <= op\.nbytes\. 100 vs 52"),
        *on("0", "exit status -6"),
        *on("1", GONE),
    ),
    "scatter": (*on("1", "must NOT be specified on non-source ranks"), *on("0", GONE)),
    "unused": (
        *on("0", "step 0 gradient 1.0"),
        *on("1", "step 0 gradient 2.0"),
        *on("01", REDUCER),
    ),
    "skipped-head": (*on("1", "step 0 .*None"), *on("1", REDUCER), *on("0", GONE)),
    "ready-twice": on("01", "Expected to mark a variable ready only once"),
    "buffers": on("01", "modified by an inplace operation"),
    "different-models": (
        *on("1", r"sizes \[3, 4\] appears not to match sizes of the same param in process 0"),
        *on("0", GONE),
    ),
    "detail": (*on("01", "the group is up"), *on("01", "exit status -11")),
    "port": on("0", "DistNetworkError: .*EADDRINUSE"),
    "missing-rank": (*on("0", "1/2 clients joined"), *on("1", r"time\.sleep\(60\)")),
    "ptr": (*on("0", "5 s later it still waits"), *on("0", "IPv6 network .* cannot be retrieved")),
    "interface": on("01", "Unable to find address for: eth7"),
    "init-twice": (
        *on("0", "experiment 1 on 1 rank"),
        *on("0", "ValueError: trying to initialize the default process group twice!"),
    ),
    "record": (*on("0", "exit status 1"), *on("0", "error_file: <N/A>")),
    "orphans": (*on("0", "worker 0 lives on"), *on("0", "worker 1 lives on")),
    # silent: the wrong numbers
    "off-by-one": (*on("12", "samples 100.0 loss 102.0"), *on("0", GONE)),
    "async": on("0", r"rank 0 reads 2\.0 and steps"),
    "reduce-dst": (*on("0", "loss 6.0 go on"), *on("3", "loss 3.0 stop")),
    "aliased": on("012", r"\[20\.0, 20\.0, 20\.0\]"),
    "view": (*on("01", r"losses \[2\.0, 6\.0, 5\.0\]"), *on("01", r"counts \[4\.0, 4\.0, 6\.0\]")),
    "transposed": on("0", r"\[\[2, 6, 5\], \[9, 8, 12\]\]"),
    "dtype": on("1", r"\[4611686019492741120, 4647714816524288000\]"),
    "narrow": (
        *on("01", "uint8 145 "),
        *on("01", "bool True "),
        *on("01", "bfloat16 400.0 "),
        *on("01", "float16 inf "),
        *on("01", "float32 16777220.0 "),
    ),
    "op-ignored": (
        *on("01", r"AVG all_reduce 1\.5 shard 3\.0"),
        *on("01", r"MAX all_reduce 2\.0 shard 3\.0"),
    ),
    # The hash seeds of fresh ranks are 1000 and 1001, so this mixture is always the same.
    "set-order": on("0", r"'loss': (?!1\.0)"),
    "group-src": on("13", "weights of rank 1$"),
    "group-none": (*on("01", r"sum in my group 11\.0 loss of all 1101\.0"), *on("23", GONE)),
    "swallowed": (*on("0", "step 1 sum 110$"), *on("1", "step 2 sum 110$"), *on("0", GONE)),
    "recv": on("1", r"received \[1\.0, 2\.0, -9\.0, -9\.0\]"),
    "bypass": (*on("0", r"gradient 1\.0"), *on("1", r"gradient 2\.0")),
    "unfrozen": (*on("0", r"weight 1\.0 bias 1\.0"), *on("1", r"weight 2\.0 bias 1\.0")),
    "token-mean": on("01", r"gradient 2\.5$"),
    "sum-loss": on("0123", r"gradient 9\.0$"),
    "hook": on("0123", r"gradient 4\.0$"),
    "no-grad-gather": on("01", r"gradient 2\.0$"),
    "reentrant": (*on("0", r"gradient -0\.9053"), *on("1", r"gradient -1\.2675")),
    "optimizer": on("01", r"moved by 0\.0$"),
    "no-sync": on("01", r"after one micro-batch 1\.5"),
    "eval-padding": on("0123", "hits 6 of 8$"),
    "set-epoch": (r"samples (\[.*\])\n0: .*samples \1\n0: .*samples \1",),
    "no-sampler": on("01", r"\[\[0, 1, 2, 3, 4, 5\], \[0, 1, 2, 3, 4, 5\]\]"),
    "same-seed": (r"0: (mask .*)\n(?:.*\n)*1: \1",),
    "load-after-wrap": (*on("0", r"weight 4\.5$"), r"^1: weight (?!4\.5)"),
    "batchnorm": (
        *on("0", r"running mean 0\.1$"),
        *on("1", r"running mean 1\.1$"),
        *on("01", r"after eval\(\) 0\.1$"),
    ),
    "restart-from-zero": (*on("0", "attempt 1 step 0"), *on("0", "exit status 0")),
}
"""By the exhibit's slug: what its broken program must show."""


FIXED: dict[str, tuple[str, ...]] = {
    "rank0-only": on("0", r"mean loss 2\.0"),
    "order": on("01", r"loss 2\.0 weights \[1\.0, 1\.0, 1\.0\]"),
    "who": on("0", r"\[Rank 0\]: Ranks 2 failed to pass monitoredBarrier in 2000 ms"),
    "raised": on("0123", r"all stop at step 1 .*bad sample 1234"),
    "sizes": on("01", r"mean error 1\.0 of 150\.0"),
    "scatter": (*on("0", r"my shard \[0\.0, 0\.0\]"), *on("1", r"my shard \[10\.0, 10\.0\]")),
    "group-members": on("02", r"sum in \[0, 2\]: 2\.0"),
    "group-timeout": on("0", "Timed out waiting 2000ms"),
    "uneven": (*on("0", "finished step 2"), *on("1", "finished step 1")),
    "unused": (*on("01", r"step 0 gradient 1\.5"), *on("01", r"step 1 gradient 1\.5")),
    "skipped-head": (r"0: step 0 (.*tensor.*)\n(?:.*\n)*1: step 0 \1", *on("01", "step 1")),
    "ready-twice": (r"0: (gradient .*)\n(?:.*\n)*1: \1",),
    "buffers": (r"0: (gradient .*)\n(?:.*\n)*1: \1",),
    "different-models": on("01", "rows 4"),
    "detail": on("01", "the model is wrapped"),
    "port": on("0", "world size 1"),
    "missing-rank": on("01", "joined by 2"),
    "ptr": (r"0: trained\n0: trained",),
    "interface": on("01", "joined by 2"),
    "init-twice": on("0", "experiment 2 on 1 rank"),
    "record": (*on("0", "exit status 1"), *on("0", "KeyError: 'label_7'")),
    "no-destroy": on("01", "result: trained"),
    "finally": (*on("1", "ValueError: bad sample 1234"), *on("0", GONE)),
    "eval-forward": (*on("0", "batch 2 score"), r"\A(?!(?:.*\n)*1: batch)"),
    "orphans": (*on("0", "worker 0 is gone"), *on("0", "worker 1 is gone")),
    "off-by-one": on("012", r"samples 300\.0 loss 3\.0"),
    "async": on("01", r"sum 6\.0"),
    "reduce-dst": on("0123", "loss 6.0 go on"),
    "aliased": on("012", r"\[0\.0, 10\.0, 20\.0\]"),
    "view": (*on("01", r"losses \[2\.0, 6\.0, 10\.0\]"), *on("01", r"counts \[2\.0, 4\.0, 6\.0\]")),
    "transposed": on("01", r"\(2, 3\) \[\[2, 4, 6\], \[8, 10, 12\]\]"),
    "dtype": on("01", r"\[1\.0, 2\.0, 3\.0, 4\.0\]"),
    "narrow": (
        *on("01", "uint8 401 "),
        *on("01", "bfloat16 401 "),
        *on("01", "float16 80001 "),
        *on("01", "float32 16777219 "),
    ),
    "op-ignored": on("01", r"AVG 1\.5 MAX 2\.0"),
    "set-order": on("01", r"\{'loss': 1\.0, 'accuracy': 10\.0, 'f1': 100\.0, 'tokens': 1000\.0\}"),
    "group-src": on("13", "weights of rank 3$"),
    "own-groups": (*on("03", r"sum 1001$"), *on("12", r"sum 110$")),
    "group-none": (
        *on("01", r"sum in my group 11\.0 loss of all 2\.0"),
        *on("23", r"sum in my group 1100\.0 loss of all 2\.0"),
    ),
    "swallowed": (*on("01", "step 1 skipped by all"), *on("01", "step 3 sum 2000$")),
    "recv": on("1", r"received \[1\.0, 2\.0\]"),
    "bypass": on("01", r"gradient 1\.5"),
    "unfrozen": on("01", r"weight 1\.5 bias 1\.0"),
    "token-mean": on("01", r"gradient 3\.25$"),
    "sum-loss": on("0123", r"gradient 36\.0$"),
    "hook": on("0123", r"gradient 1\.0$"),
    "no-grad-gather": on("01", r"gradient 4\.0$"),
    "reentrant": on("01", r"gradient -1\.0864"),
    "optimizer": on("01", r"moved by -1\.0$"),
    "no-sync": (
        *on("0", r"after one micro-batch 1\.0"),
        *on("1", r"after one micro-batch 2\.0"),
        *on("01", r"after the last one 3\.0"),
    ),
    "eval-padding": on("0123", "hits 6 of 7$"),
    "set-epoch": (r"samples (\[.*\])\n0: .*samples (?!\1)(\[.*\])\n0: .*samples (?!\1|\2)",),
    "no-sampler": on("01", r"\[\[0, 2, 4\], \[1, 3, 5\]\] distinct 6"),
    "same-seed": (r"0: (mask .*)\n(?:.*\n)*1: mask (?!\1)",),
    "load-after-wrap": on("01", r"weight 4\.5$"),
    "batchnorm": on("01", r"running mean 0\.6$"),
    "restart-from-zero": (
        *on("0", "attempt 1 step 3"),
        r"\A(?!(?:.*\n)*.*attempt 1 step 0)",
    ),
}
"""By the exhibit's slug: what its fixed program must show."""
