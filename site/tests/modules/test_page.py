"""The pages of modules keep their promises: marks behind claims, short fences, a mutant each."""

from __future__ import annotations

import re
import tomllib

import pytest

from press import evidence, modules, scan
from press.modules import Module
from press.project import pinned_torch

MARK = re.compile(evidence.MARK)
NUMBER = re.compile(r"\d")
NO_CLAIM = (  # digits that assert nothing: code, math, addresses, sections, versions
    r"`[^`\n]+`",
    r"\$[^$\n]+\$",
    r"\]\([^)\n]*\)",
    r"^\s*\d+\. ",
    r"[Mm]odule \d+",
    r"PyTorch 2\.8\.0|\b2\.8\b",
    r"Python 3\.11 to 3\.13",
    r"\{#[\w-]+\}",
    r"<[^>\n]*>",
    r"\b[Ee]t al\. \d{4}",
)
ASKS = re.compile(r"\*\*(Question|Predict|Break it|Your turn)|\?$|^\d\. ")  # not claims
MODULES = modules.everything()
of_each_module = pytest.mark.parametrize("module", MODULES, ids=lambda module: module.stem)


def text_of(module: Module) -> str:
    """Return the source of a module's page."""
    return module.page.read_text()


def scan_of(module: Module) -> scan.Scan:
    """Return what the page asks for."""
    return scan.text(text_of(module), module.page.name)


def executed(module: Module) -> dict[str, str]:
    """Return the code of the executed fences by their id."""
    return {fence.id: fence.code for fence in scan_of(module).fences}


def claimed(module: Module) -> set[str]:
    """Return the fences that the page's marks name."""
    marks = MARK.finditer(text_of(module))
    return {match["name"] for match in marks if match["kind"] == "ran"}


def own_sources(module: Module) -> list[evidence.Source]:
    """Return the sources of a module's file, not those of other pages."""
    names = tomllib.loads((module.folder / "sources.toml").read_text())
    return [source for name, source in evidence.sources().items() if name in names]


def prose(text: str) -> list[tuple[int, str]]:
    """Return (line number, line) of what is neither front matter, nor fence, nor display math."""
    text = scan.text(text, "page.md").prose
    text = re.sub(r"^\$\$.*?^\$\$", lambda match: "\n" * match[0].count("\n"), text,
                  flags=re.MULTILINE | re.DOTALL)  # fmt: skip
    return [(n, line) for n, line in enumerate(text.split("\n"), 1) if line.strip()]


def unmarked(module: Module, text: str) -> list[str]:
    """Return the table rows, and the lines with a number, that carry no mark."""
    own = (rf"\b{module.number}\.\d+", *module.limits.get("no_claim", ()))
    no_claim = re.compile("|".join((*NO_CLAIM, *own)))
    faults, lines = [], prose(text)
    separators = {n for n, line in lines if re.match(r"\s*\|[-:| ]+\|$", line)}
    for n, line in lines:
        if line.lstrip().startswith("#") or MARK.search(line) or ASKS.search(line):
            continue
        row = line.lstrip().startswith("|") and n not in separators and n + 1 not in separators
        if row or (n not in separators and NUMBER.search(no_claim.sub("", line))):
            faults.append(f"{module.page.name}:{n}: {line.strip()}")
    return faults


def test_there_are_modules():
    assert MODULES


@of_each_module
def test_every_row_and_every_number_carries_a_mark(module):
    assert unmarked(module, text_of(module)) == []


@pytest.mark.parametrize(
    "added", ["\nAll 8 ranks wait 30 s.\n", "\n| a | b |\n|---|---|\n| x | y |\n"]
)
@of_each_module
def test_an_unmarked_claim_is_found(module, added):
    assert len(unmarked(module, text_of(module) + added)) == 1


@of_each_module
def test_marks_name_what_exists(module):
    assert claimed(module) - set(executed(module)) == set()
    assert set(evidence.used_sources(text_of(module))) - set(evidence.sources()) == set()


@of_each_module
def test_sources_are_pinned_or_dated(module):
    for source in own_sources(module):
        assert source.url.startswith("https://"), source
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", source.accessed), source
        if "pytorch/pytorch/" in source.url and "/blob/" in source.url:
            assert f"/v{pinned_torch()}/" in source.url, source


@of_each_module
def test_no_source_is_forgotten(module):
    text = text_of(module)

    assert [s.name for s in own_sources(module) if f"[[src:{s.name}]]" not in text] == []


@of_each_module
def test_a_fence_fits(module):
    most = module.limits["lines"], module.limits["columns"]
    long = [
        f"{name}: {len(lines)} lines of {max(map(len, lines))} columns; at most {most}"
        for name, code in executed(module).items()
        if len(lines := code.splitlines()) > most[0] or max(map(len, lines)) > most[1]
    ]

    assert long == []


@of_each_module
def test_a_fence_leaves_its_group(module):
    """Without it a correct program now and then ends with status -6; limits.toml has exceptions."""
    staying = [
        name
        for name, code in executed(module).items()
        if "init_process_group" in code and "destroy_process_group" not in code
    ]

    assert set(staying) == set(module.limits.get("stays", ()))


@of_each_module
def test_sections_are_numbered_in_order(module):
    numbered = re.findall(r"^## (\d+[a-z]?\.\d+) ", scan_of(module).prose, re.MULTILINE)

    assert numbered == [f"{module.number}.{n}" for n in range(1, len(numbered) + 1)]
    assert numbered


@of_each_module
def test_enough_is_executed_on_real_ranks(module):
    ranks = [fence.ranks for fence in scan_of(module).fences]

    assert len(ranks) >= module.limits["executed"] > 0
    assert sum(n >= 2 for n in ranks) >= module.limits["on_real_ranks"] > 0


@of_each_module
def test_one_sentence_a_line(module):
    crowded = [
        f"{n}: {line}"
        for n, line in prose(text_of(module))
        if not line.lstrip().startswith(("|", "-", "#", "<"))
        and re.search(r"[a-z`)]\. [A-Z][a-z]+ [a-z]", re.sub(r"`[^`]*`|\bal\. ", "", line))
    ]

    assert crowded == []


@of_each_module
def test_mutations_apply_once(module):
    codes = executed(module)
    for mutation in module.load("mutations").MUTATIONS:
        assert codes[mutation.fence].count(mutation.old) == 1, mutation
        assert mutation.old != mutation.new, mutation


@of_each_module
def test_every_executed_claim_has_a_mutation(module):
    mutated = {mutation.fence for mutation in module.load("mutations").MUTATIONS}

    assert claimed(module)
    assert claimed(module) - mutated == set()
