"""The pages of modules keep their promises: marks behind claims, short fences, a mutant each."""

from __future__ import annotations

import re
import tomllib

import pytest

from press import evidence, modules, scan
from press.modules import Module
from press.project import pinned_torch

MARK = re.compile(evidence.MARK)
CLAIM_MARK = re.compile(r"\[\[(?:(?:ran|src):[\w.-]+|judged|not-run)\]\]")
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
ASKS = re.compile(r"\*\*(Question|Predict|Check yourself|Break it|Your turn)")
ANSWER = re.compile(r"( *)\?\?\?\+? (?:question|success)\b")
TITLE = re.compile(r" *(?:#|!!!|\?\?\?)")  # of a section or of a box
ROW = re.compile(r" *\|")
SEPARATOR = re.compile(r" *\|[-:| ]+\|$")
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
    text = re.sub(r"^ *\$\$.*?^ *\$\$", lambda match: "\n" * match[0].count("\n"), text,
                  flags=re.MULTILINE | re.DOTALL)  # fmt: skip
    return [(n, line) for n, line in enumerate(text.split("\n"), 1) if line.strip()]


def without_answers(lines: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return the lines that do not stand in the box of an answer."""
    kept, inside = [], None
    for n, line in lines:
        indent = len(line) - len(line.lstrip())
        inside = None if inside is not None and indent <= inside else inside
        if answer := ANSWER.match(line):
            inside = len(answer[1])
        if inside is None:
            kept.append((n, line))
    return kept


def blocks(text: str) -> list[list[tuple[int, str]]]:
    """Return the paragraphs and tables outside answers: neighbouring lines that are no titles."""
    found: list[list[tuple[int, str]]] = []
    last = -1
    for n, line in without_answers(prose(text)):
        if TITLE.match(line):
            continue
        if n == last + 1 and found and bool(ROW.match(line)) == bool(ROW.match(found[-1][-1][1])):
            found[-1].append((n, line))
        else:
            found.append([(n, line)])
        last = n
    return found


def asks(paragraph: list[tuple[int, str]]) -> bool:
    """Tell whether a paragraph is a question, which claims nothing."""
    first, last = paragraph[0][1], paragraph[-1][1]
    return bool(ASKS.match(first.lstrip())) or last.endswith("?")


def proved_whole(table: list[tuple[int, str]], before: list[tuple[int, str]]) -> bool:
    """Tell whether a table's head, or the sentence that leads to it, carries a mark."""
    return any(CLAIM_MARK.search(lines[i][1]) for lines, i in ((table, 0), (before, -1)) if lines)


def unmarked(module: Module, text: str) -> list[str]:
    """Return the paragraphs with a number, and the tables or rows, that carry no mark."""
    own = (rf"\b{module.number}\.\d+", *module.limits.get("no_claim", ()))
    no_claim = re.compile("|".join((*NO_CLAIM, *own)))
    faults: list[tuple[int, str]] = []
    before: list[tuple[int, str]] = []
    for block in blocks(text):
        first = block[0][1]
        if ROW.match(first):
            if not proved_whole(block, before):
                rows = [each for each in block[1:] if not SEPARATOR.match(each[1])]
                faults += [each for each in rows if not CLAIM_MARK.search(each[1])]
        elif not asks(block) and not any(CLAIM_MARK.search(line) for _, line in block):
            told = [each for each in block if NUMBER.search(no_claim.sub("", each[1]))]
            faults += told[:1]
        before = block
    return [f"{module.page.name}:{n}: {line.strip()}" for n, line in faults]


def test_there_are_modules():
    assert MODULES


@of_each_module
def test_every_paragraph_with_a_number_and_every_table_carries_a_mark(module):
    assert unmarked(module, text_of(module)) == []


TABLE = "\nA table{}:\n\n| a | b{} |\n|---|---|\n| x | y{} |\n| z | w |\n"


@pytest.mark.parametrize(
    ("added", "faults"),
    [
        ("\nAll 8 ranks wait 30 s.\n", 1),
        ("\nAll 8 ranks wait.\nThey wait 30 s.\n", 1),
        ("\nAll 8 ranks wait.\nThey wait 30 s. [[judged]]\n", 0),
        ("\nThey wait. [[judged]]\n\nThey wait 30 s.\n", 1),
        ('\n??? version "In 2.8: odd"\n\n    All 8 ranks wait.\n', 1),
        ('\n??? question "Do 8 ranks wait?"\n\n    All 8 do.\n\n    For 30 s.\n', 0),
        ('\n??? question "Do 8 ranks wait?"\n\n    All 8 do.\n\nFor 30 s.\n', 1),
        ("\n**Question.** All 8 ranks wait.\nHow long?\n", 0),
        ("\nAll 8 wait.\nHow long?\n", 0),
        ("\nDo all 8 wait?\nFor 30 s.\n", 1),
        (TABLE.format("", "", ""), 2),
        (TABLE.format("", "", " [[judged]]"), 1),
        (TABLE.format("", " [[judged]]", ""), 0),
        (TABLE.format(" [[judged]]", "", ""), 0),
    ],
)
@of_each_module
def test_an_unmarked_claim_is_found(module, added, faults):
    already = len(unmarked(module, text_of(module)))

    assert len(unmarked(module, text_of(module) + added)) - already == faults


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
