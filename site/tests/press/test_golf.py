"""Programs that learners read have one statement a line; each kind of golf is found."""

from __future__ import annotations

import pytest

from press import golf, scan
from press.project import CONTENT

PAGES = scan.pages(CONTENT)
GOLF = {
    "x = 1; y = 2": "two statements in a line",
    "if x: y()": "two statements in a line",
    "if x:\n    y()\nelse: z()": "two statements in a line",
    "try: f()\nexcept E:\n    g()": "two statements in a line",
    "with a: f()": "two statements in a line",
    "for _ in '12': f()": "two statements in a line",
    "class Stop(Exception): pass": "two statements in a line",
    'é = "ü"; x = 1': "two statements in a line",
    "import os, torch": "two modules in an import",
    "f(), g()": "a tuple stands as a statement",
    "x and print()": "`and` or `or` stands as a statement",
    "f() if x else g()": "a conditional stands as a statement",
    "[f(x) for x in y]": "a list is made to run something",
    "print(x := 1)": "`:=` within a statement or a tuple",
    "a = (x := 1, f(x))": "`:=` within a statement or a tuple",
    "register(None, lambda s, b: (sizes.append(b), hook(s, b))[1])": "a tuple is indexed",
}
PLAIN = """
import os
import torch
from a import b, c

rank, world = dist.get_rank(), dist.get_world_size()
name = ("first", "second")[rank]
last = key(lambda row: row[-1])
first = x or y
def size(sizes, bucket):  # a comment; with a semicolon
    sizes.append(bucket.buffer())
    return hook(None, bucket)
@decorated
def other():
    '''Text; text'''
while part := file.read():
    print(part if part else "none", f"{x}; {y}")
text = '''
a = 1; b = 2
'''
squares = [x * x for x in range(4)]
"""


@pytest.mark.parametrize("code", GOLF)
def test_golf_is_found_and_named(code):
    (one,) = golf.found(code)

    assert GOLF[code] in one.what
    assert one.instead


def test_plain_code_has_none():
    assert golf.found(PLAIN) == []


def test_what_is_no_python_has_none():
    assert golf.found("x = 1; y = …") == []


PAGE = """# A page

```python exec="on" id="one"
import torch
x = 1; y = 2
```

??? note "In a box"

    ```python title="shown"
    f(), g()
    ```

```bash exec="on" id="shell"
echo before; echo it
cat > worker.py <<'END'
import os
import sys, torch
END
cat > notes.txt <<END
x = 1; y = 2
END
```
"""


def test_it_is_told_with_page_line_fence_and_what_to_write():
    told = golf.problems(scan.text(PAGE, "content/x.md"))

    assert [(problem.at, problem.id, problem.tail) for problem in told] == [
        ("content/x.md:5", "one", "x = 1; y = 2"),
        ("content/x.md:18", "shell", "import sys, torch"),
        ("content/x.md:11", "", "f(), g()"),
    ]
    assert all(problem.todo for problem in told)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_none(page):
    assert [str(problem) for problem in golf.problems(PAGES[page])] == []
