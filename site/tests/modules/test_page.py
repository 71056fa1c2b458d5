"""Module 26's page keeps its promises: marks behind claims, short fences, every correction said."""

import re
import tomllib

import pytest

from press import evidence, modules, scan

(MODULE,) = modules.everything()
MUTATIONS = MODULE.load("mutations").MUTATIONS
PAGE = MODULE.page
TEXT = PAGE.read_text()
SCAN = scan.text(TEXT, PAGE.name)
MARK = re.compile(evidence.MARK)
NUMBER = re.compile(r"\d")
NO_CLAIM = re.compile(  # digits that assert nothing: code, math, addresses, sections, versions
    r"`[^`\n]+`|\$[^$\n]+\$|\]\([^)\n]*\)|^\s*\d+\. |26\.\d+|[Mm]odule \d+|PyTorch 2\.8\.0|\b2\.8\b"
    r"|Python 3\.11 to 3\.13|FSDP2|\{#[\w-]+\}|<[^>\n]*>|\b[Ee]t al\. \d{4}"
)
ASKS = re.compile(r"\*\*(Question|Predict|Break it|Your turn)|\?$|^\d\. ")  # not claims
SECTIONS = (
    "One script, N processes",
    "Process groups and rendezvous",
    "Launching, restarting, resuming",
    "Collectives and what they cost",
    "Why averaged gradients are right",
    "What DDP does",
    "Accumulation and uneven inputs",
    "DistributedSampler",
    "Communication hooks",
    "What came before",
    "Debugging",
    "When more GPUs stop helping",
    "The five facts in their smallest form",
    "The lab",
    "Closing",
)
CORRECTIONS = {  # what torch 2.8.0 does otherwise than is often written -> where the page says so
    "torchfrtrace cannot start": r"that command cannot start.*\[\[ran:torchfrtrace\]\]",
    "Flight Recorder records gloo": r"records gloo on a CPU as well.*\[\[ran:flight-recorder\]\]",
    "reduce_scatter ignores every op": r"ignores \*every\* op, not only.*\[\[ran:ops-ignored\]\]",
    "reduce_scatter costs an all-reduce": r"a full all-reduce.*\[\[ran:wire\]\]",
    "forward inside no_sync": r"The \*\*forward\*\* must be inside.*\[\[ran:no-sync\]\]",
    "a bucket may exceed its cap": r"\"At most `bucket_cap_mb`\" is.*\[\[ran:buckets\]\]",
    "one bucket at first": r"is wrong for the first iteration.*\[\[ran:buckets\]\]",
    "bucket_cap_mb=25 spelt out": r"`bucket_cap_mb=25`, spelt out.*\[\[ran:first-bucket\]\]",
    "static_graph rebuilds later": r"rebuild comes one iteration later.*\[\[ran:static-graph\]\]",
    "unused parameter silent": r"keeps \*local\* gradients.*one step late.*\[\[ran:unus",
    "DETAIL and DDP": r"with DDP on gloo it crashes.*\[\[ran:detail-ddp\]\]",
    "DETAIL misses": r"another `ReduceOp`, another `src`.*\[\[ran:detail-blind\]\]",
    "DETAIL hides": r"can also \*hide\* a fault",
    "same sequence id": r"is wrong for a rank that went on.*\[\[ran:flight-recorder\]\]",
    "off by one, silently": r"off by one for the rest of the run.*\[\[ran:rank0-only\]\]",
    "18 variables": r"exports 18 in all.*\[\[ran:torchrun-env\]\]",
    "the agent hosts the store": r"every rank, rank 0 included, is a client",
    "torchrun exits 1": r"exit status is always 1.*\[\[ran:exit-status\]\]",
    "new_group's own timeout": r"inherits the limit, which.*\[\[ran:group-timeout\]\]",
    "SyncBatchNorm": r"one all-gather in forward and one all-reduce in backward",
    "two forms of the stall": r"It has two forms",
    "elements, not samples": r"number of \*elements\*.*\[\[ran:sum-loss\]\]",
    "destroy or -6": r"exit status -6 and `terminate called",
    "restart on gloo": r"`TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1`",
}


def own_sources():
    """Return the sources of this module's file, not those of other pages."""
    names = tomllib.loads((MODULE.folder / "sources.toml").read_text())
    return [source for name, source in evidence.sources().items() if name in names]


def executed():
    """Return the code of the executed fences by their id."""
    return {fence.id: fence.code for fence in SCAN.fences}


def prose(text=TEXT):
    """Return (line number, line) of what is neither front matter, nor fence, nor display math."""
    blank = lambda match: "\n" * match[0].count("\n")  # noqa: E731
    text = scan.text(text, PAGE.name).prose
    text = re.sub(r"^\$\$.*?^\$\$", blank, text, flags=re.MULTILINE | re.DOTALL)
    return [(n, line) for n, line in enumerate(text.split("\n"), 1) if line.strip()]


def unmarked(text=TEXT):
    """Return the table rows, and the lines with a number, that carry no mark."""
    faults, lines = [], prose(text)
    separators = {n for n, line in lines if re.match(r"\s*\|[-:| ]+\|$", line)}
    for n, line in lines:
        if line.lstrip().startswith("#") or MARK.search(line) or ASKS.search(line):
            continue
        row = line.lstrip().startswith("|") and n not in separators and n + 1 not in separators
        if row or (n not in separators and NUMBER.search(NO_CLAIM.sub("", line))):
            faults.append(f"{PAGE.name}:{n}: {line.strip()}")
    return faults


def test_every_row_and_every_number_carries_a_mark():
    assert unmarked() == []


@pytest.mark.parametrize(
    "added", ["\nAll 8 ranks wait 30 s.\n", "\n| a | b |\n|---|---|\n| x | y |\n"]
)
def test_an_unmarked_claim_is_found(added):
    assert len(unmarked(TEXT + added)) == 1


def test_marks_name_what_exists():
    ran = {match["name"] for match in MARK.finditer(TEXT) if match["kind"] == "ran"}

    assert ran - set(executed()) == set()
    assert set(evidence.used_sources(TEXT)) - set(evidence.sources()) == set()


def test_sources_are_pinned_or_dated():
    for source in own_sources():
        assert source.url.startswith("https://"), source
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", source.accessed), source
        if "pytorch/pytorch/" in source.url and "/blob/" in source.url:
            assert "/v2.8.0/" in source.url, source


def test_no_source_is_forgotten():
    assert [s.name for s in own_sources() if f"[[src:{s.name}]]" not in TEXT] == []


@pytest.mark.parametrize(("fence", "code"), executed().items())
def test_a_fence_fits(fence, code):
    lines = code.splitlines()

    assert len(lines) <= 15, fence
    assert max(map(len, lines)) <= 72, fence


def test_a_fence_leaves_its_group():
    """Without it a correct program now and then ends with status -6, as the page itself says."""
    failing = {"detail-ddp", "syncbn", "init-refusals"}
    staying = [
        name
        for name, code in executed().items()
        if "init_process_group" in code and "destroy_process_group" not in code
    ]

    assert set(staying) == failing


def test_sections_stand_in_order():
    numbered = re.findall(r"^## (26\.\d+) (.+?)(?: \{#.*)?$", SCAN.prose, re.MULTILINE)

    assert numbered == [(f"26.{n}", title) for n, title in enumerate(SECTIONS, 1)]


@pytest.mark.parametrize("name", CORRECTIONS)
def test_a_correction_is_on_the_page(name):
    assert re.search(CORRECTIONS[name], TEXT), name


def test_enough_is_executed_on_real_ranks():
    ranks = [fence.ranks for fence in SCAN.fences]

    assert len(executed()) >= 25
    assert sum(n >= 2 for n in ranks) >= 15


def test_one_sentence_a_line():
    crowded = [
        f"{n}: {line}"
        for n, line in prose()
        if not line.lstrip().startswith(("|", "-", "#", "<"))
        and re.search(r"[a-z`)]\. [A-Z][a-z]+ [a-z]", re.sub(r"`[^`]*`|\bal\. ", "", line))
    ]

    assert crowded == []


def test_mutations_apply_once():
    codes = executed()
    for mutation in MUTATIONS:
        assert codes[mutation.fence].count(mutation.old) == 1, mutation
        assert mutation.old != mutation.new, mutation


def test_every_executed_claim_has_a_mutation():
    ran = {match["name"] for match in MARK.finditer(TEXT) if match["kind"] == "ran"}

    assert ran - {mutation.fence for mutation in MUTATIONS} == set()
