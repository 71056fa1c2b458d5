"""The bridge to markdown-exec: its formatters, with our way to run a block.

markdown-exec validates a fence and lays out source and output (`base_format`); only `run` is ours.
superfences swallows what a formatter raises, so nothing is raised here: what goes wrong is noted
in the problems that the build hands over.
"""

from __future__ import annotations

import html
import itertools
import re
import traceback
from collections.abc import Mapping
from functools import partial

import pygments
import pygments.formatters
import pygments.lexers
from markdown_exec import base_format, formatters
from markupsafe import Markup

from distlab.spmd import texts
from press import downloads, fences
from press.drift import page as drift
from press.executor import Execution, Executor
from press.fences import Fence, Problem
from press.judge import rank_texts

LANGUAGES = (*fences.PYTHON, *fences.SHELLS)
TOKEN = "distlab-output-{}-{}"  # noqa: S105 -- a placeholder, not a secret
STRAY = (
    "a fence was about to run that stands in no page's source; "
    "another fence has printed it, or it is in an included file"
)
NOTHING_TO_PREDICT = "predict has no output to fold: the ranks printed nothing"
BLOCK = r'<div class="[^"]*highlight[^"]*">(?:(?!<div)[\s\S])*?{}\s*</code></pre></div>'


class Formatter:
    """Lays out each fence that was asked for, and notes what was executed and what went wrong.

    asked, executions: by place; problems: in the order in which they are met
    """

    def __init__(
        self,
        executor: Executor,
        asked: Mapping[str, Fence],
        executions: dict[str, Execution],
        problems: list[Problem],
    ) -> None:
        """Read `asked`; fill `executions` and `problems`."""
        self.executor, self.asked = executor, asked
        self.executions, self.problems = executions, problems
        self._numbers = itertools.count()

    def register(self) -> None:
        """Replace markdown-exec's formatters for the languages that are executed here."""
        for language in LANGUAGES:
            formatters[language] = partial(self._format, language)

    def _format(self, language: str, **block: object) -> Markup:
        extra = block.get("extra", {})
        at = extra.pop("at", "")
        for option in fences.OURS:
            extra.pop(option, None)  # base_format would write them into the header it makes
        fence = self.asked.get(at)
        if fence is None and any(problem.at == at for problem in self.problems):
            return Markup()  # its header was refused
        if fence is None:
            return self._refuse("an unknown page", STRAY, todo="write it into the page")
        try:
            return self._render(fence, language, block)
        except Exception as error:
            tail = "".join(traceback.format_exception(error))
            return self._refuse(at, f"could not be rendered: {error}", fence.id, tail=tail)

    def _refuse(self, *problem: str, **details: str) -> Markup:
        self.problems.append(Problem(*problem, **details))
        return Markup()

    def _render(self, fence: Fence, language: str, block: dict) -> Markup:
        outputs: dict[str, Execution] = {}
        run = partial(self._run, fence, bool(block["result"]), outputs)
        inner = base_format(
            language=language,
            run=run,
            transform_source=_without_prompts if language == "console" else None,
            **{**block, "width": 0},  # the run gets its width in its own environment
        )
        text = str(inner)
        for token, execution in outputs.items():
            text = _put_output(text, token, execution, block["source"], block["result"])
        anchor = f' id="fence-{fence.id}"' if fence.id else ""
        place = html.escape(fence.at)
        text += drift.note(fence)
        markup = Markup(f'<div class="fence"{anchor} data-at="{place}">{text}</div>')  # noqa: S704
        _move_headings(block["md"], inner, markup)
        return markup

    def _run(self, fence: Fence, as_text: bool, outputs: dict, code: str, **_: object) -> str:
        """Stand in for markdown-exec's `run`: return Markdown, or a token for text put in later."""
        execution = self.executor.execute(fence, code)
        self.executions[fence.at] = execution
        if execution.problem:
            self.problems.append(execution.problem)
        elif fence.predict and not any(rank_texts(fence, execution.outcome, code)):
            todo = "print what the reader is to predict, or leave predict out"
            self.problems.append(Problem(fence.at, NOTHING_TO_PREDICT, fence.id, todo=todo))
        if not as_text:
            return texts.normalise(execution.outcome.ranks[0].stdout)
        token = TOKEN.format(next(self._numbers), fence.ranks)
        outputs[token] = execution
        return token


def _without_prompts(code: str) -> tuple[str, str]:
    """Return what a console block runs (the lines after a prompt) and what it shows."""
    lines = [line for line in code.split("\n") if line[:2] in ("$ ", "% ")]
    return "\n".join(line[2:] for line in lines), "\n".join(lines)


def _put_output(page: str, token: str, execution: Execution, source: str, result: str) -> str:
    """Replace the token by the output, escaped, so that no output can leave its block."""
    fence = execution.fence
    lines = output_html(fence, execution, result)
    if source == "console":
        return page.replace(token, lines)
    block = (
        f'<div class="fence-output"><p class="fence-output-title">{html.escape(_title(fence))}'
        f"{_download(fence)}</p>"
        f'<pre tabindex="0"><code>{lines or "(no output)"}</code></pre></div>'
    )
    if fence.predict:
        who = "it" if fence.ranks == 1 else "the ranks"
        summary = f"<summary>Show what {who} printed</summary>"
        block = f'<details class="prediction">{summary}{block}</details>'
    return re.sub(BLOCK.format(re.escape(token)), lambda _: block, page)


def output_html(fence: Fence, execution: Execution, language: str) -> str:
    """Return the output as HTML, each line of more than one rank under its rank's label."""
    said = rank_texts(fence, execution.outcome, execution.code)
    if fence.ranks == 1:
        return _highlight(said[0], language).rstrip("\n")
    folded = texts.fold(said)
    width = max((len(label) for label, _ in folded), default=0)
    return "\n".join(
        f'<span class="rank">{label:>{width}}</span> {line}'
        for label, text in folded
        for line in _highlight(text, language).rstrip("\n").split("\n")
    )


def _highlight(text: str, language: str) -> str:
    if language == "text":
        return html.escape(text)
    lexer = pygments.lexers.get_lexer_by_name(language, stripnl=False, ensurenl=False)
    return pygments.highlight(text, lexer, pygments.formatters.HtmlFormatter(nowrap=True))


def _title(fence: Fence) -> str:
    title = "Output" if fence.ranks == 1 else f"Output of {fence.ranks} ranks"
    if fence.hang:
        return f"{title}, stuck and ended after {fence.hang:g} s, as declared"
    if fence.raises:
        return f"{title}, which fails as declared"
    if fence.returncode:
        return f"{title}, with exit status {fence.returncode} as declared"
    return title


def _download(fence: Fence) -> str:
    address = downloads.address(fence)
    name = f"{fence.id}.py"
    return f' <a class="fence-file" href="{address}" download>{name}</a>' if address else ""


def _move_headings(md: object, old: Markup, new: Markup) -> None:
    """Let the contents list find headings that a fence printed, though their markup is wrapped."""
    name = "markdown_exec_insert_headings"
    if name in md.treeprocessors and old in md.treeprocessors[name].headings:
        headings = md.treeprocessors[name].headings
        headings[new] = headings.pop(old)
