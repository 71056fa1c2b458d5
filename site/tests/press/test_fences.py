"""A header means what it says or is refused; an outcome is the declared one or a problem."""

from __future__ import annotations

import pytest

from distlab.spmd import Outcome, RankOutcome, texts
from press import fences
from press.drift import recordings
from press.fences import FenceError, read_header
from press.judge import judge, rank_texts

REFUSED = {
    'exce="on"': "exce is no option",
    "exec=on": "cannot read 'exec=on'",
    'exec="onn"': "exec='onn' is neither",
    'source="above"': 'add exec="on"',
    'ranks="2"': 'add exec="on"',
    'exec="on" source="abvoe"': "source='abvoe' is not one of",
    'exec="on" rank="2"': "rank is no option of a fence; did you mean ranks?",
    'exec="on" ranks="0"': "ranks='0' is not a whole number from 1 to 16",
    'exec="on" ranks="two"': "ranks='two' is not a whole number",
    'exec="on" ranks="17"': "from 1 to 16",
    'exec="on" timeout="0"': "timeout='0' is not a number of seconds",
    'exec="on" timeout="nan"': "timeout='nan' is not a number of seconds",
    'exec="on" session="s"': "session makes no sense here: every fence is a program of its own",
    'exec="on" workdir="."': "workdir makes no sense here",
    'exec="on" title=\'say "hi"\'': "title has a quotation mark in it",
    'exec="on" title="say': "cannot read",
    'exec="on" id="a" id="b"': "id stands twice",
    'exec="on" raises="x" hang="2"': "raises and hang exclude each other",
    'exec="on" hang="2" returncode="3"': "hang and returncode exclude each other",
    'exec="on" hang="2" timeout="3"': "leave timeout out",
    'exec="on" raises=""': "every error would match",
    'exec="on" start="spawn"': "start='spawn' is neither",
    'exec="on" waits="long"': "waits='long' is neither",
    'exec="on" result="text" predict="yes!"': "predict='yes!' is neither",
    'exec="on" predict="on"': 'predict folds an output of result="text"; add result="text"',
    'exec="on" source="console" predict="on"': 'add result="text"',
    'predict="on" result="text"': 'add exec="on"',
    'exec="on" at="content/x.md:1"': "at is no option",
    ',exec="on"': "cannot read ','",
    "exec": "cannot read 'exec'",
    '{.python exec="on"}': "braces take no options of markdown-exec",
}


@pytest.mark.parametrize("info", REFUSED)
def test_a_header_that_would_not_run_as_meant_is_refused(info):
    with pytest.raises(FenceError) as refusal:
        read_header("content/x.md:3", "python", info, "pass")

    assert REFUSED[info] in str(refusal.value)


@pytest.mark.parametrize(
    ("language", "info", "reason"),
    [
        ("pyhton", 'exec="on"', "language 'pyhton' is not executed here"),
        ("", 'exec="on"', "language '' is not executed here"),
        ("bash", 'exec="on" ranks="2"', "a shell fence runs once"),
        ("bash", 'exec="on" start="fresh"', "a shell fence runs once"),
    ],
)
def test_a_language_is_refused_with_the_reason(language, info, reason):
    with pytest.raises(FenceError, match=reason):
        read_header("content/x.md:3", language, info, "pass")


@pytest.mark.parametrize(
    "info", ["", 'exec="off"', 'title="a \'quote\'" hl_lines="1 2"', '{.python title="x"}']
)
def test_a_block_that_only_shows_code_is_no_fence(info):
    assert read_header("content/x.md:3", "python", info, "pass") is None


def test_the_options_of_a_fence_are_those_of_its_program():
    fence = read_header(
        "content/x.md:3", "python", 'exec="on" ranks="4" timeout="9.5" width="40"', "x"
    )
    program = fence.program("x")

    assert (program.ranks, program.timeout, program.env) == (4, 9.5, (("COLUMNS", "40"),))
    assert read_header("a:1", "bash", 'exec="on" hang="2"', "x").program("x").waits
    assert read_header("a:1", "bash", 'exec="on" waits="on"', "x").program("x").waits
    assert not read_header("a:1", "bash", 'exec="on" waits="off"', "x").program("x").waits


def test_a_recording_of_a_fence_does_not_know_whether_its_output_is_folded():
    info = 'exec="on" result="text" id="sum" ranks="2"'
    plain, folded = (
        read_header("content/x.md:3", "python", f"{info}{more}", "x")
        for more in ("", ' predict="on"')
    )

    assert (plain.predict, folded.predict) == (False, True)
    assert recordings.fence_item(plain) == recordings.fence_item(folded)


def outcome(cause, *exits, stderr="", killed=()):
    ranks = tuple(
        RankOutcome(i, code, cause == "finished", i in killed, "out\n", stderr if code else "",
                    "", 1.0)
        for i, code in enumerate(exits)
    )  # fmt: skip
    failed = [i for i, code in enumerate(exits) if code and i not in killed]
    return Outcome(cause, 1.0, ranks, failed[0] if failed else None)


TRACE = 'Traceback (most recent call last):\n  File "fence.py"\nValueError: bad\nsecond line\n'
GOOD = outcome("finished", 0, 0)
RAISED = outcome("failed", 0, 1, stderr=TRACE)
ABORTED = outcome("failed", 0, -6)
STUCK = outcome("deadline", -9, -9, killed=(0, 1))
SLOW_FAILURE = outcome("failed", -9, 1, killed=(0,), stderr=TRACE)


@pytest.mark.parametrize(
    ("info", "met", "others"),
    [
        ("", [GOOD], [RAISED, ABORTED, STUCK, outcome("flood", 0)]),
        ('raises="bad"', [RAISED, SLOW_FAILURE], [GOOD, ABORTED, STUCK]),
        ('raises="second line"', [RAISED], [GOOD]),
        ('raises="fence.py"', [], [RAISED]),  # in the traceback, not in the error
        ('returncode="-6"', [ABORTED], [GOOD, RAISED, STUCK]),
        ('returncode="1"', [RAISED, SLOW_FAILURE], [GOOD, ABORTED]),
        ('hang="2"', [STUCK], [GOOD, RAISED, ABORTED]),
    ],
)
def test_an_outcome_is_judged_by_what_the_fence_declares(info, met, others):
    fence = read_header("content/x.md:3", "python", f'exec="on" ranks="2" {info}', "x")

    assert [judge(fence, each, "x") for each in met] == [None] * len(met)
    for each in others:
        problem = judge(fence, each, "x")
        assert problem.at == "content/x.md:3"
        assert problem.what.startswith("expected ")
        assert problem.todo


def test_a_report_names_place_id_rank_expectation_outcome_output_and_next_step():
    fence = read_header("content/x.md:3", "python", 'exec="on" id="sum" ranks="2"', "x")
    report = str(judge(fence, RAISED, "x"))

    assert report.splitlines()[0] == (
        "content/x.md:3 (fence sum), rank 1: expected every rank to run off its end; "
        "rank 1 ended with exit status 1"
    )
    assert "    | ValueError: bad" in report
    assert "    -> save it as fence.py and run: torchrun --nproc_per_node=2" in report


def test_equal_neighbours_are_folded_and_the_silent_left_out():
    assert texts.fold(["a", "a", "", "b"]) == [("ranks 0-1", "a"), ("rank 3", "b")]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("[Gloo] Rank 0 is connected to 3 peer ranks. Expected number of connected peer ranks is : "
         "3\nx", "x"),
        ("closed by peer [127.0.0.1]:41233", "closed by peer [127.0.0.1]:PORT"),
        ("[W1130 01:22:43.345678901 socket.cpp:12] x", "[W socket.cpp:12] x"),
        ("E1130 01:22:43.345000 1234 torch/x.py:774] x", "E torch/x.py:774] x"),
        ("2026-11-30 01:22:43,345 x", "TIME x"),
        ("<object at 0x7f12ab34cd56>", "<object at 0xADDRESS>"),
        ('File "/tmp/distlab-ab12/7/work/fence.py", line 1', 'File "fence.py", line 1'),
        ('File "/x/y/site-packages/torch/a.py", line 1', 'File "torch/a.py", line 1'),
        ("pid: 123, pid=4", "pid: PID, pid=PID"),
        ("port: 29500, useIpv6", "port: PORT, useIpv6"),
        ("MASTER_PORT=29500", "MASTER_PORT=PORT"),
        ("12:30 and 127 ports", "12:30 and 127 ports"),
        ("connect to (a.example, 41637).", "connect to (a.example, PORT)."),
        ("[rank3]: Traceback\n[rank3]:   File\n[rank3]:\nx", "Traceback\n  File\n\nx"),
        ("[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:544] Connection closed by peer "
         "[127.0.0.1]:41",
         "[gloo/transport/tcp/pair.cc] Connection closed by peer (or reset by peer) "
         "[127.0.0.1]:PORT"),
        ("[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:535] Read error [127.0.0.1]:41: "
         "Connection reset by peer",
         "[gloo/transport/tcp/pair.cc] Connection closed by peer (or reset by peer) "
         "[127.0.0.1]:PORT"),
        ("[/__w/pytorch/pytorch/third_party/gloo/gloo/context.cc:1] x", "[gloo/context.cc:1] x"),
        ("unbound_buffer.cc:129] Timed out waiting 9ms for send operation",
         "unbound_buffer.cc] Timed out waiting 9ms for recv (or send) operation"),
        ("a\x02b\x03", "a\N{SYMBOL FOR START OF TEXT}b\N{SYMBOL FOR END OF TEXT}"),
    ],
)  # fmt: skip
def test_what_differs_from_run_to_run_is_replaced(written, shown):
    assert texts.normalise(written) == shown


def test_a_traceback_counts_the_frames_of_torch():
    own = '  File "fence.py", line 9, in <module>\n    f()\n'
    torch = (
        '  File "torch/a.py", line 1, in f\n    g()\n    ^^^\n  File "torch/b.py", line 2, in g\n'
    )

    assert texts.without_torch(f"{own}{torch}{own}") == f"{own}  … 2 frames in torch\n{own}"
    assert texts.without_torch(f"{torch}E: x") == "  … 2 frames in torch\nE: x"


def test_a_rank_that_a_signal_ended_says_so():
    fence = read_header("content/x.md:3", "python", 'exec="on" ranks="2"', "x")

    assert rank_texts(fence, ABORTED, "x")[1].endswith("(ended by SIGABRT: exit status -6)\n")


def test_the_last_error_is_the_one_that_ended_the_rank():
    chained = (
        TRACE + "\nDuring handling of the above exception:\n\n" + TRACE.replace("bad", "worse")
    )

    assert texts.last_error(chained) == "ValueError: worse\nsecond line"
    assert texts.last_error("noise\nterminate called\n") == "terminate called"
    assert texts.last_error("") == ""
    assert texts.last_error("[rank1]: Traceback (most recent call last):\n[rank1]:   File\n"
                            "[rank1]: E: x\n") == "E: x"  # fmt: skip


def test_every_option_is_documented():
    """CONTRIBUTING.md is where an author looks an option up."""
    text = (texts.ROOT / "CONTRIBUTING.md").read_text()

    assert [name for name in fences.OURS if f"`{name}" not in text] == []
