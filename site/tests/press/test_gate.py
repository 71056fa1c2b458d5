"""No page is published that asks for something that was not run, run well, and shown."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from concurrent.futures import Future

import pytest
from markdown import Markdown
from markdown_exec import formatter, validator

from press import build, executor, scan
from press.formatter import Formatter
from tools.site_copy import Site

GOOD = '\n```python exec="on" id="good"\nprint("fine")\n```\n'
HEADERS = {
    "misspelt exec": '```python exce="on"\npass\n```',
    "unquoted": "```python exec=on\npass\n```",
    "misspelt language": '```pyhton exec="on"\npass\n```',
    "misspelt source": '```python exec="on" source="abvoe"\npass\n```',
    "braces": '```{.python exec="on"}\npass\n```',
    "unclosed quote": '```python exec="on\npass\n```',
    "unclosed": '```python exec="on"\npass\n',
    "unclosed before another": '```text\nshown\n\n```python exec="on"\npass\n```',
    "unknown option": '```python exec="on" rank="2"\npass\n```',
    "no ranks": '```python exec="on" ranks="0"\npass\n```',
    "misspelt on": '```python exec="onn"\npass\n```',
    "session": '```python exec="on" session="s"\npass\n```',
    "quotes in a title": '```python exec="on" title=\'say "hi"\'\npass\n```',
    "comma": '```python,exec="on"\npass\n```',
    "two outcomes": '```python exec="on" raises="x" hang="2"\npass\n```',
    "same id": '```python exec="on" id="good"\npass\n```',
    "comment": '<!--\n\n```python exec="on"\npass\n```\n\n-->',
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """Make a folder of outcomes for all builds of this file, so that few import torch."""
    return str(tmp_path_factory.mktemp("outcomes"))


@pytest.mark.parametrize("kind", HEADERS)
def test_a_bad_header_fails_a_quiet_build_with_its_line(copy_of_site, outcomes, kind):
    copy_of_site.write(f"---\ntitle: x\n---\n# A page\n{GOOD}\n{HEADERS[kind]}\n")
    built = copy_of_site.build("-q", FENCE_CACHE=outcomes)

    assert built.status == 1, built.said
    assert re.search(r"^content/index\.md:(10|12|13)\b", built.said, re.MULTILINE), built.said
    assert not list(built.public.rglob("*.html"))


FENCES = {"pymdownx.superfences": {"custom_fences": [
    {"name": "python", "class": "python", "validator": validator, "format": formatter}
]}}  # fmt: skip
FAULTY = {
    "a.md": "# A\n\n```python exec=on\npass\n```\n" + GOOD,
    "b.md": '# B\n\n```python exec="on" rnaks="2"\npass\n```\n',
    "c.md": "# C\n" + GOOD + GOOD,
    "d.md": "# D\n\nIt holds. [[ran:ghost]] So they say. [[src:nobody]]\n" + GOOD,
}


class Counting:
    """Stands for the fork server: counts what it is given."""

    def __init__(self):
        self.programs = []

    def submit(self, program):  # noqa: D102, as Launcher.submit
        self.programs.append(program)
        return Future()


def test_what_a_look_at_the_text_tells_is_told_before_anything_runs(tmp_path, monkeypatch):
    server = Counting()
    monkeypatch.setattr(executor, "shared_launcher", lambda: server)
    content = tmp_path / "content"
    content.mkdir()
    for name, text in FAULTY.items():
        (content / name).write_text(text)
    with pytest.raises(build.BuildError) as told:
        build.Build(tmp_path).begin()

    places = re.findall(r"^content/(\w\.md:\d+)", str(told.value), re.MULTILINE)
    assert places == ["a.md:3", "b.md:3", "c.md:7", "d.md:3", "d.md:3"]
    assert server.programs == []
    (content / "a.md").write_text("# A\n" + GOOD)
    for name in ("b.md", "c.md", "d.md"):
        (content / name).unlink()
    build.Build(tmp_path).begin()
    assert len(server.programs) == 1


def test_a_misspelt_option_is_one_problem(copy_of_site, outcomes):
    copy_of_site.write('# A page\n\n```python exec="on" rnaks="2"\npass\n```\n')
    built = copy_of_site.build("-q", FENCE_CACHE=outcomes)

    assert "content/index.md:3: rnaks is no option of a fence; did you mean ranks?" in built.said
    assert "\n1 problem; no page was written." in built.said


def test_a_refused_header_is_not_called_unknown_while_the_page_is_rendered():
    """The formatter meets it too, where a page changes while it is built."""
    asked = scan.text(FAULTY["b.md"], "content/b.md")
    ours = Formatter(None, {}, {}, list(asked.problems))
    ours.register()
    Markdown(extensions=["pymdownx.superfences"], extension_configs=FENCES).convert(asked.markdown)

    assert ours.problems == list(asked.problems)


INDENTED = '\nSome text.\n\n    ```python exec="on"\n    pass\n    ```\n'
RUNS = {
    "fails": ("1 / 0", "", "rank 0 ended with exit status 1"),
    "assertion": ("assert 1 == 2", "", "rank 0 ended with exit status 1"),
    "sys.exit(0)": ("import sys; sys.exit(0)", "", "status 0 before its end"),
    "sys.exit(0) on the last line": ("x = 1\nraise SystemExit", "", "status 0 before its end"),
    "os._exit(0)": ("import os; os._exit(0)", "", "status 0 before its end"),
    "hangs": ("import time; time.sleep(60)", 'timeout="1"', "still running at the deadline"),
    "signal": ("import os; os.kill(os.getpid(), 11)", "", "ended by signal 11"),
    "raises nothing": ("pass", 'raises="x"', "all ranks ran off their end"),
    "raises another": ("1 / 0", 'raises="other"', "expected an error with 'other'"),
    "another status": ("raise SystemExit(3)", 'returncode="4"', "rank 0 ended with exit status 3"),
    "does not hang": ("pass", 'hang="1"', "all ranks ran off their end"),
    "one rank of two": (
        "import os\nassert os.environ['RANK'] == '0'", 'ranks="2"',
        "rank 1 ended with exit status 1",
    ),
    "floods": ("while True: print('x' * 100)", "", "wrote without end"),
    "predicts nothing": ("pass", 'predict="on"', "predict has no output to fold"),
}  # fmt: skip


def test_all_bad_runs_are_in_one_report_each_with_its_line(copy_of_site):
    """Every kind is one fence of one page, so that the report is seen to be complete."""
    text, lines = "# A page\n" + GOOD, {}
    for kind, (code, options, _) in RUNS.items():
        text += "\n"
        lines[kind] = text.count("\n") + 1
        text += f'```python exec="on" source="above" result="text" {options}\n{code}\n```\n'
    lines["shell"] = text.count("\n") + 1
    text += '```bash exec="on"\nfalse\n```\n'
    lines["indented"] = text.count("\n") + 4
    copy_of_site.write(text + INDENTED)
    built = copy_of_site.build("-q")
    found = {int(line): what for line, what in
             re.findall(r"^content/index\.md:(\d+)(.*)$", built.said, re.MULTILINE)}  # fmt: skip

    assert built.status == 1
    assert sorted(found) == sorted(lines.values()), built.said
    for kind, (_, _, happened) in RUNS.items():
        assert happened in found[lines[kind]]
    assert "is in the source but not on the page" in found[lines["indented"]]
    assert not list(built.public.rglob("*.html"))


@pytest.mark.parametrize("kind", ["fails", "os._exit(0)", "hangs", "does not hang"])
def test_one_bad_run_alone_fails_the_build(copy_of_site, kind):
    code, options, happened = RUNS[kind]
    copy_of_site.write(f'# A page\n\n```python exec="on" {options}\n{code}\n```\n')
    built = copy_of_site.build("-q")

    assert (built.status, "content/index.md:3" in built.said, happened in built.said) == (
        1,
        True,
        True,
    )


def test_an_indented_fence_alone_fails_the_build(copy_of_site):
    copy_of_site.write("# A page\n" + INDENTED)
    built = copy_of_site.build("-q")

    assert (built.status, "content/index.md:5" in built.said) == (1, True)


NESTED = """---
title: x
---
# A page

- in a list

    ```python exec="on" source="above" result="text"
    if True:
        print("list")
    ```

> ```python exec="on" source="above" result="text"
> print("quote")
> ```

!!! note

    ```python exec="on" source="above" result="text"
    print("admonition")
    ```

=== "Tab"

    ```python exec="on" source="above" result="text"
    print("tab")
    ```

````md
```python exec="on"
1 / 0
```
````

```python exec="off"
1 / 0
```

```text title="plain"
shown
```

~~~python exec="on" source="tabbed-left" result="text"
print("tilde")
~~~

```python exec="on"
print("## A printed heading\\n\\n*markdown*")
```

```bash exec="on" source="console" result="console"
echo shell
```
"""


def test_what_must_pass_passes_from_the_cache_as_well(copy_of_site):
    copy_of_site.write(NESTED)
    cold = copy_of_site.build()
    record = json.loads((cold.public / "executions.json").read_text())
    page = (cold.public / "index.html").read_text()
    warm = copy_of_site.build("-q")
    again = json.loads((warm.public / "executions.json").read_text())

    assert cold.status == 0, cold.said
    assert len(record) == 7
    for word in ("list", "quote", "admonition", "tab", "tilde", "shell", "<em>markdown</em>"):
        assert word in page
    assert [entry["line"] for entry in record] == [8, 13, 19, 25, 43, 47, 51]
    assert 'href="#exec-' in page  # the printed heading is in the contents list
    assert warm.status == 0, warm.said
    assert all(entry["cached"] for entry in again)
    assert page == (warm.public / "index.html").read_text()


BOXED = """# A page

```python exec="on" source="above" result="text" ranks="2" predict="on"
print("of both")
```

??? version "In 2.8: closed"

    ```python exec="on" result="text" id="nested" source="above" predict="on"
    if True:

        print("of one")
    ```

    ??? note "Closed as well"

        ```python exec="on" html="on" id="figure" source="above"
        def figure():
            print('<b id="drawn">a figure</b>')

        figure()
        ```
"""


@pytest.fixture(scope="module")
def boxed(tmp_path_factory):
    """Build the page BOXED; return its outcomes' folder and what was built."""
    folder = tmp_path_factory.mktemp("boxed")
    site = Site(folder)
    site.write(BOXED)
    return folder / "outcomes", site.build("-q", FENCE_CACHE=str(folder / "outcomes"))


def test_a_predicted_output_is_folded_and_can_be_searched(boxed):
    _, built = boxed
    page = (built.public / "index.html").read_text()
    both, one = re.findall(r'<details class="prediction">(.*?)</details>', page, re.DOTALL)

    assert built.status == 0, built.said
    assert both.startswith("<summary>Show what the ranks printed</summary>")
    assert '<span class="rank">ranks 0-1</span> of both' in both
    assert one.startswith("<summary>Show what it printed</summary>")
    assert "of one" in one
    found = (built.public / "search/search_index.json").read_text()
    assert all(word in found for word in ("of both", "of one", "a figure"))


def test_a_fence_in_a_box_is_the_same_program_to_all_who_read_it(boxed):
    """Its scan and superfences agree on the text, so that no fence runs twice."""
    outcomes, built = boxed
    asked = scan.text(BOXED, "content/index.md").fences
    record = json.loads((built.public / "executions.json").read_text())

    assert asked[1].code == 'if True:\n\n    print("of one")'
    assert [entry["id"] for entry in record] == ["", "nested", "figure"]
    assert len(list(outcomes.iterdir())) == 3
    for fence in asked[1:]:
        taken = (built.public / f"index/{fence.id}.py").read_text()
        assert taken == f"# python {fence.id}.py\n{fence.code}\n"
    assert '<b id="drawn">a figure</b>' in (built.public / "index.html").read_text()


def test_output_cannot_leave_its_block(copy_of_site):
    hostile = (
        '<script>alert(1)</script>\\n````````\\n--8<-- "mkdocs.yml"\\n'
        "</code></pre>\\x02wzxhzdk:0\\x03"
    )
    copy_of_site.write(
        '# A page\n\n```python exec="on" source="above" result="text" ranks="2"\n'
        f"print('{hostile}')\n```\n"
    )
    built = copy_of_site.build("-q")
    page = (built.public / "index.html").read_text()

    assert built.status == 0, built.said
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert page.count("--8&lt;-- &quot;mkdocs.yml&quot;") == 1
    assert "site_dir" not in page


def test_a_failed_outcome_is_never_stored(copy_of_site):
    copy_of_site.write('# A page\n\n```python exec="on"\n1 / 0\n```\n')

    assert copy_of_site.build("-q").status == 1
    assert not list((copy_of_site.folder / ".cache").rglob("*.json"))


def test_the_gate_as_a_command_finds_what_is_not_shown(copy_of_site):
    copy_of_site.write("# A page\n" + GOOD)
    public = copy_of_site.build("-q").public

    def check(*arguments):
        command = [sys.executable, "-m", "press.gate", *arguments]
        return subprocess.run(
            command, cwd=copy_of_site.folder, capture_output=True, text=True, check=False
        )

    assert check().returncode == 0
    page = public / "index.html"
    page.write_text(page.read_text().replace("data-at=", "data-was="))
    found = check("content", "public")
    assert found.returncode == 1
    assert "content/index.md:3 (fence good): is in the source but not on the page" in found.stdout
    assert [check("nowhere").returncode, check("--help").returncode] == [2, 2]
    (public / "executions.json").unlink()
    assert "no record of executions" in check().stdout


def test_a_scan_names_lines_behind_front_matter(tmp_path):
    page = tmp_path / "content/x.md"
    page.parent.mkdir()
    page.write_text("---\na: 1\n---\n\n" + GOOD)

    assert [fence.at for fence in scan.file(page, page.parent).fences] == ["content/x.md:6"]
