"""Pieces of an HTML page that needs nothing else.

Everything that comes from a record is escaped: `element` takes text and escapes it, writes what does not
print as an escape, and lets through only what is `Markup` already.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from rankcast.errors import plain


class Markup(str):
    """Text that is markup already. Everything else is escaped on its way into an element."""

    __slots__ = ()


def element(name: str, *content: str, **attributes: str | int | None) -> Markup:
    """Make an element; content that is not `Markup` is escaped, attributes always are, None leaves one out.

    >>> element("td", "a < b", class_="number")
    '<td class="number">a &lt; b</td>'
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_escaped(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{given}>{join(content)}</{name}>")


def join(content: Iterable[str]) -> Markup:
    """Join pieces, escaping those that are not markup yet."""
    return Markup("".join(each if isinstance(each, Markup) else _escaped(each) for each in content))


def _escaped(value: object) -> str:
    return html.escape(plain(str(value), keep="\n"))


def number(value: float | None) -> str:
    """Write a number with four significant digits, thousands apart, and nothing for None.

    >>> number(1234567.8), number(6.6), number(0.0123456), number(44), number(None)
    ('1,234,568', '6.6', '0.01235', '44', '')
    """
    if value is None:
        return ""
    if float(value).is_integer() or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def duration(seconds: float) -> str:
    """Write seconds in the unit that fits.

    >>> duration(0.00001234), duration(0.25), duration(12.3)
    ('12.3 µs', '250 ms', '12.3 s')
    """
    for factor, unit in ((1e-6, "µs"), (1e-3, "ms"), (1.0, "s")):
        if seconds < 999.5 * factor or unit == "s":
            return f"{seconds / factor:.3g} {unit}" if seconds < 999.5 else f"{seconds:,.0f} s"
    raise AssertionError("the last unit takes everything")


def size(count: int | None) -> str:
    """Write bytes in the unit that fits.

    >>> size(512), size(2_500_000), size(None)
    ('512 B', '2.5 MB', '')
    """
    if count is None:
        return ""
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count} B"


STYLE = """
:root { color-scheme: light dark; --page: #fbfbfa; --card: #ffffff; --ink: #1d2329; --soft: #667079;
  --line: #e2e5e8; --head: #f2f4f5; --accent: #2468a8; --good: #1c7c54; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --page: #14171a; --card: #1b1f23;
  --ink: #e3e6e8; --soft: #98a2ab;
  --line: #30363c; --head: #22272c; --accent: #7ab3e8; --good: #6cc79b; --bad: #f28b82; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 78rem; padding: 2.5rem 1.5rem 5rem; background: var(--page);
  color: var(--ink); font: 15px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif; }
h1 { font-size: 1.9rem; margin: 0 0 .3rem; letter-spacing: -.02em; }
h2 { font-size: 1.25rem; margin: 0; letter-spacing: -.01em; }
h3 { font-size: .82rem; margin: 1.6rem 0 .5rem; color: var(--soft); font-weight: 600; }
p { margin: .3rem 0; max-width: 52rem; }
a { color: var(--accent); text-decoration: none; } a:hover { text-decoration: underline; }
.soft { color: var(--soft); } .good { color: var(--good); } .bad { color: var(--bad); font-weight: 700; }
nav { margin: 1.5rem 0 2rem; display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; font-size: .9rem; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 1.3rem 1.5rem 1.5rem; margin: 0 0 1.4rem; }
.source { font-size: .82rem; color: var(--soft); border: 1px solid var(--line); border-radius: 99px;
  padding: .1rem .6rem; margin-left: .6rem; vertical-align: .15em; font-weight: 400; letter-spacing: 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums; min-width: 100%; }
th { text-align: left; font-weight: 600; font-size: .78rem; color: var(--soft); background: var(--head);
  vertical-align: bottom; white-space: nowrap; }
th, td { padding: .36rem .6rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th.number, td.number { text-align: right; }
td.given { vertical-align: top; } td.words { white-space: normal; min-width: 18rem; }
.folded th, .folded td { white-space: normal; } .folded td:first-child { min-width: 12rem; }
tr.first td { border-top: 1px solid var(--line); }
td small { color: var(--soft); font-size: .85em; margin-left: .35em; }
td.paper { color: var(--soft); }
.figures { display: flex; flex-wrap: wrap; gap: 1.2rem; }
figure { margin: 1rem 0 0; flex: 1 1 26rem; max-width: 40rem; }
figure svg { width: 100%; height: auto; color: var(--ink); font-family: inherit; }
figcaption { font-size: .85rem; color: var(--soft); }
details { margin-top: .9rem; font-size: .88rem; }
summary { cursor: pointer; color: var(--accent); margin-bottom: .4rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; font-size: .88rem;
  margin: .8rem 0 0; }
dt { color: var(--soft); } dd { margin: 0; }
@media print { body { max-width: none; } section { break-inside: avoid; } }
"""


_META = Markup('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">')


def document(title: str, style: str, parts: Iterable[Markup]) -> str:
    """A whole page under a title."""
    head = element("head", _META, element("title", title), element("style", Markup(style)))
    body = element("body", element("h1", title), *parts)
    return f'<!doctype html>\n<html lang="en">{head}{body}</html>\n'


def scroll(heads: Sequence[Markup], rows: Sequence[Markup]) -> Markup:
    """Make a table that scrolls sideways when the window is narrow."""
    table = element("table", element("thead", element("tr", *heads)), element("tbody", *rows))
    return element("div", table, class_="scroll")
