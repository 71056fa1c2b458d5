"""HTML of the interactive figures: the frame, native controls with labels, tables, numbers."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from html import escape

# Layout stands here, once, because the page's style sheet knows nothing of controls.
ROW = "display:flex;flex-wrap:wrap;gap:.7em 1.4em;align-items:end"
FIELDSET = (
    "border:1px solid var(--fig-rule,currentColor);border-radius:6px;margin:0;padding:.5em 1em 1em"
)
NBSP = "\N{NO-BREAK SPACE}"  # between a number and its unit
SMALL = "font:.7rem/1.5 var(--ui-font,sans-serif)"
CONTROL = (
    "font:inherit;color:inherit;background:var(--fig-paper,transparent);padding:.25em .4em;"
    "border:1px solid var(--rule-strong,currentColor);border-radius:4px"
)


@dataclass(frozen=True)
class Column:
    """A table's column: its head, and whether it holds numbers, which are set flush right."""

    name: str
    number: bool = False


class Safe(str):
    """Text that is HTML already."""

    __slots__ = ()


def figure(
    name: str,
    *,
    legend: str,
    controls: str,
    live: str,
    static: str,
    data: object,
    caption: str,
    summary: str = "",
) -> str:
    """Return a figure that is complete without JavaScript.

    `controls` and `live` stay hidden until the element's module is there. With a `summary` the
    static figure can be folded away (the module does so; print opens it again); without, the
    module works on the static figure itself.
    """
    shown = f"<details open><summary>{escape(summary)}</summary>{static}</details>"
    return (
        f'<figure class="figure"><{name} style="display:block;text-align:left">'
        f'<div data-live hidden style="{SMALL}"><fieldset style="{FIELDSET}">'
        f'<legend>{escape(legend)}</legend><div style="{ROW}">{controls}</div></fieldset>'
        f"{live}</div>{shown if summary else static}"
        f'<script type="application/json">{_json(data)}</script></{name}>'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def picture(drawing: str, caption: str) -> str:
    """Return a drawing with its caption."""
    return f'<figure class="figure">{drawing}<figcaption>{escape(caption)}</figcaption></figure>'


def select(name: str, label: str, options: Mapping[object, object], chosen: object) -> str:
    """Return a drop-down list; `options` maps values to what is shown."""
    shown = "".join(
        f'<option value="{escape(str(value))}"{" selected" if value == chosen else ""}>'
        f"{escape(str(text))}</option>"
        for value, text in options.items()
    )
    return _labelled(
        label, f'<select name="{name}" autocomplete="off" style="{CONTROL}">{shown}</select>'
    )


def slider(name: str, label: str, least: int, most: int, value: int) -> str:
    """Return a slider over whole numbers."""
    return _labelled(
        label,
        f'<input type="range" name="{name}" min="{least}" max="{most}" value="{value}" '
        'autocomplete="off">',
    )


def quantity(name: str, label: str, value: float, step: str = "any") -> str:
    """Return a field for a number above 0 (1 or more, if only whole ones are allowed)."""
    least = "1" if step == "1" else "1e-9"
    return _labelled(
        label,
        f'<input type="number" name="{name}" min="{least}" step="{step}" value="{value:g}" '
        f'required autocomplete="off" style="{CONTROL};width:8em">',
    )


def checkbox(name: str, label: str, *, checked: bool = False) -> str:
    """Return a box to tick."""
    state = " checked" if checked else ""
    return (
        f'<label><input type="checkbox" name="{name}" autocomplete="off"{state}> '
        f"{escape(label)}</label>"
    )


def button(name: str, label: str) -> str:
    """Return a button."""
    return f'<button type="button" name="{name}" style="{CONTROL};cursor:pointer">{label}</button>'


def named(name: str, value: str) -> Safe:
    """Return a value that a module can find by name and replace."""
    return Safe(f'<span data-value="{name}">{escape(value)}</span>')


def table(columns: Sequence[Column], rows: Iterable[Sequence[object]], mark: str = "") -> str:
    """Return a table whose first cells name their rows; it scrolls by itself when it is too wide.

    `mark` names the table's body for a module.
    """
    head = "".join(
        f'<th scope="col"{_side(column)}>{escape(column.name)}</th>' for column in columns
    )
    body = "".join(f"<tr>{_cells(columns, row)}</tr>" for row in rows)
    name = f' data-rows="{mark}"' if mark else ""
    return (
        f'<div class="wide"><table class="data"><thead><tr>{head}</tr></thead>'
        f"<tbody{name}>{body}</tbody></table></div>"
    )


def three(value: float) -> str:
    """Write a number with three significant digits, halves upwards, thousands in commas.

    The calculator's module writes numbers in the same way; a test compares the two.
    """
    rounded = Context(prec=3, rounding=ROUND_HALF_UP).create_decimal(Decimal(value))
    return f"{rounded.normalize():,f}"


def plain(value: float) -> str:
    """Write a number with all its digits, thousands in commas."""
    return f"{Decimal(repr(value)).normalize():,f}"


def _labelled(label: str, control: str) -> str:
    return f'<label style="display:grid;gap:.2em">{escape(label)}{control}</label>'


def _cells(columns: Sequence[Column], row: Sequence[object]) -> str:
    first, *others = zip(columns, row, strict=False)
    return f'<th scope="row">{_text(first[1])}</th>' + "".join(
        f"<td{_side(column)}>{_text(value)}</td>" for column, value in others
    )


def _text(value: object) -> str:
    return value if isinstance(value, Safe) else escape(str(value))


def _side(column: Column) -> str:
    return ' style="text-align:right;white-space:nowrap"' if column.number else ""


def _json(data: object) -> str:
    """Write JSON that can neither end the script element it stands in nor open a comment there."""
    text = json.dumps(data, separators=(",", ":"))
    return text.replace("</", "<\\/").replace("<!", "\\u003c!")
