"""Ids and names from outside are plain text wherever people read them: no markup, no control character."""

from __future__ import annotations

import html.parser
import io
import pickle
import re
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from rankcast import MovingSkyline, MovingTopK, RangeTopK, cli, plot
from rankcast.bench.markup import element
from rankcast.demo import pages, scenes
from rankcast.demo.city import screen
from rankcast.demo.scenes import tell_change
from rankcast.errors import SHOWN, InputError, RankcastError, plain, shown
from rankcast.pipeline import replay_command
from rankcast.pipeline.progress import Progress, View

PIECES = (
    "[/]",
    "[link=https://example.org]here[/link]",
    "[bold red]",
    "\x1b[2J",
    "\x1b]0;title\x07",
    "\x9b31m",
    "two\nlines",
    "\r",
    "\u202eright to left\u202c",
    "\u2028",
    "\x00",
    "\x7f",
    "<script>alert(1)</script>",
    '"><img src=x>',
    "&amp;",
    "$x^{2}$",
    r"$\frac{$",
    "\\",
    "_hidden",
    "a",
    "é",
    "漢",
)
SURROGATES = ("\ud800", "\udfff")
hostile = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), min_size=1, max_size=4).map("".join)
anything = st.lists(
    st.sampled_from((*PIECES, *SURROGATES)) | st.text(st.characters(), max_size=4), min_size=1, max_size=4
).map("".join)
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")  # what rich itself writes to move the cursor and to colour


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def prints(text: str) -> bool:
    """Whether a text has no character that does not print, but for ends of lines."""
    return text.replace("\n", "").isprintable()


def deltas(name: str) -> pa.Table:
    return pa.table(
        {
            "subscription": [name, name, None],
            "op": ["enter", "leave", "refused"],
            "item": [name, name, name],
            "score": [0.5, None, None],
            "rank": [1, None, None],
            "reason": [None, None, f"is {name}"],
        }
    )


@given(anything)
@example("\ud800")
def test_plain_text_prints_and_can_be_written(text: str) -> None:
    assert plain(text).isprintable()
    plain(text).encode()
    assert plain(plain(text)) == plain(text)
    assert text != plain(text) or text.isprintable()


@given(anything)
def test_values_in_errors_print_and_are_short(text: str) -> None:
    long = text * 1000
    assert shown(long).isprintable()
    assert len(shown(long)) <= 10 * SHOWN + 10
    for error in (
        InputError(f"is {text}", where=text, column=text, detail=text, hint=text, expected=text),
        InputError.unknown(long, [text], where="rows"),
        RankcastError(text, detail=text, hint=text),
    ):
        lines = str(error).split("\n")
        assert len(lines) <= 3
        assert all(line.isprintable() for line in lines)
        again = pickle.loads(pickle.dumps(error))  # noqa: S301
        assert (str(again), vars(again)) == (str(error), vars(error))


@given(hostile)
@example("a" * 5000)
def test_ids_in_errors_of_engines_print_and_are_cut(name: str) -> None:
    engine = RangeTopK()
    for call in (engine.unsubscribe, engine.results):
        with pytest.raises(InputError) as caught:
            call([name])
        assert prints(str(caught.value))
        assert len(str(caught.value)) < 1000


@given(hostile)
@example("[/]")
def test_the_console_sink_prints_plain_lines(name: str) -> None:
    stream = io.StringIO()
    with View(name, stream) as view:
        view.changed(0, deltas(name))
    assert prints(stream.getvalue())
    assert stream.getvalue().count("\n") == 3
    assert plain(name) in stream.getvalue()


@given(hostile)
@example("[/]")
@example("[link=https://example.org]here[/link]")
def test_the_live_table_shows_ids_as_they_are(name: str) -> None:
    stream = Terminal()
    with View(name, stream) as view:
        view.changed(0, deltas(name))
        view.show(Progress())
        page = view._page()
    assert prints(ESCAPE.sub("", stream.getvalue()).replace("\r", ""))
    wide = io.StringIO()
    Console(file=wide, width=1000).print(page)
    assert plain(name).strip() in wide.getvalue()


def test_text_that_is_no_utf8_is_shown() -> None:
    broken = pa.array([b"\xff\xfe", b"ok", b"\x1b"]).cast(pa.binary()).view(pa.string())
    table = deltas("a").set_column(0, "subscription", broken)
    stream = io.StringIO()
    with View("name", stream) as view:
        view.changed(0, table)
    assert stream.getvalue().splitlines()[0].startswith(r"  \xff\xfe: +a")
    assert prints(stream.getvalue())


@given(hostile)
def test_a_replay_prints_plain_values(name: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        stream = io.StringIO()
        patch.setattr("sys.stdout", stream)
        replay_command.show(deltas(name))
    assert prints(stream.getvalue())
    assert stream.getvalue().count("\n") == 4


@given(hostile)
def test_demonstrations_show_ids_as_they_are(name: str) -> None:
    row = {"subscription": f"a{name}", "item": name, "event": name, "op": "enter", "score": 1.0, "rank": 1}
    row |= {"action": "covered", "covered_by": name, "router": name}
    cells = [*(tell_change(row) or ()), *scenes.tell_action(row), *scenes.tell_match(row)]
    lines = [screen.tell(each, row) or "" for each in ("routers", "offers", "prices", "deals")]
    for each in (*cells, *lines):
        assert Text.from_markup(each).plain.isprintable()
    assert Text.from_markup(cells[2]).plain.rstrip("\\") == plain(name).rstrip("\\")  # rich doubles the last
    assert all(plain(name) in Text.from_markup(each).plain for each in lines)


class Tags(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


@given(anything)
def test_pages_hold_text_and_no_markup_of_others(name: str) -> None:
    told = Tags()
    made = element("p", name, title=name)
    told.feed(made)
    told.close()
    assert told.tags == ["p"]
    assert told.text == plain(name, keep="\n")
    assert prints(made)
    page = pages.page(name, name, [pages.table(("who",), [(name,)])])
    page.encode()
    assert "<script" not in page
    assert "<img" not in page


@pytest.mark.parametrize("name", ["$x^{2}$", "\x1b[2J\u202e\n$\\frac{$", "_$" * 40])
def test_pictures_have_no_formulas_and_no_controls(name: str) -> None:
    pytest.importorskip("matplotlib")
    stocks = RangeTopK(over="$x$", by=r"$\frac{$", k=1)
    stocks.subscribe({"id": ["s"]})
    stocks.publish({"id": [name], "$x$": [1.0], r"$\frac{$": [2.0]})
    top, sky = MovingTopK(over=["a"], k=1), MovingSkyline(over=["a"])
    for engine in (top, sky):
        engine.upsert({"id": [1, 2, 3], "x": [0.0, 1.0, 0.0], "y": [0.0, 1.0, 1.0], "a": [1.0, 2.0, 3.0]})
        engine.subscribe({"id": [name], "x": [0.2], "y": [0.3]})
    for figure in (plot.influence(stocks, name), plot.zone(top, name), plot.zone(sky, name)):
        text = io.StringIO()
        figure.savefig(text, format="svg")
        for each in figure.findobj(lambda found: hasattr(found, "get_text")):
            said = each.get_text()
            assert prints(said)
            assert said.count("$") == said.count(r"\$")


@given(anything)
def test_the_command_says_mistakes_in_lines_of_their_own(text: str) -> None:
    def fail(words: Any) -> Any:
        raise RankcastError(f"is {text}", detail=f"as {text}", hint=f"do {text}")

    for stream, lines in ((Terminal(), 3), (io.StringIO(), 1)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cli, "_parser", fail)
            patch.setattr("sys.stderr", stream)
            assert cli.main(["run"]) == 2
        told = stream.getvalue()
        assert told.startswith("rankcast: is ")
        assert prints(told)
        assert told.count("\n") == lines
        if lines == 3:
            assert [line.split(" ")[0] for line in told.splitlines()[1:]] == ["Detail:", "Hint:"]
