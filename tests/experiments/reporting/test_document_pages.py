from html.parser import HTMLParser

import pytest
from rich.console import Console

from experiments.reporting.document import (
    Badge,
    Bullets,
    Cited,
    Code,
    Document,
    Figure,
    Section,
    Table,
)
from experiments.reporting.html_page import render_html
from experiments.reporting.markdown_page import escaped, render_markdown
from experiments.reporting.terminal_table import fit_columns, rich_table

EVIL = '<script>alert("x")</script> & [bold]|`*'
SVG = '<!DOCTYPE svg><svg xmlns="http://www.w3.org/2000/svg"><rect fill="#ffffff"/></svg>'
TABLE = Table(
    EVIL,
    ("Name", "Value\n(unit)", "Verdict"),
    ((EVIL, "1.50\n(1 to 2)", Badge("fine\n(really)", "good")),),
    caption=EVIL,
)
DOCUMENT = Document(
    EVIL,
    (EVIL,),
    (
        Section(EVIL, (EVIL, Bullets((EVIL,)), Code(EVIL), TABLE)),
        Section("Drawing", (Figure("A", EVIL, "plots/a.png", SVG, SVG.replace("#fff", "#000")),)),
    ),
)

VOID = {"meta", "br", "img", "source"}


class Checker(HTMLParser):
    """Collect tags, addresses and text, and check that tags are closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [v for k, v in attrs if k in {"src", "href", "srcset", "data", "action"}]
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def parse(page: str) -> Checker:
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert checker.open == []
    return checker


def print_table(table: Table, width: int) -> str:
    console = Console(width=width, record=True, file=None, force_terminal=False)
    with console.capture() as capture:
        console.print(rich_table(table, width))
    return capture.get()


def test_html_escapes_all_text_and_holds_no_script():
    checker = parse(render_html(DOCUMENT))
    assert "script" not in checker.tags
    assert sum(EVIL in text for text in checker.text) == 12


def test_html_refers_to_nothing_outside_itself():
    page = render_html(DOCUMENT)
    checker = parse(page)
    assert checker.addresses
    assert all(a.startswith(("data:image/svg+xml;base64,", "#")) for a in checker.addresses)
    assert "http:" not in page
    assert "https:" not in page
    assert "url(" not in page
    assert "@import" not in page


def test_a_source_is_linked_and_nothing_else_is():
    cited = Cited("Who & when 2020", "https://example.org/a?b=1&c=2")
    table = Table("T", ("Name", cited), (("a", cited),))
    document = Document("T", (), (Section("S", (table,)),))
    page = render_html(document)
    addresses = [a for a in parse(page).addresses if not a.startswith("#")]
    assert addresses == [cited.address] * 2
    assert f"[{cited.text}]({cited.address}) |" in render_markdown(document)
    assert print_table(table, 80).count(cited.text) == 2


@pytest.mark.parametrize("address", ["", "javascript:alert(1)", "http://a.org", "a.html"])
def test_a_source_is_an_address_on_the_web(address):
    with pytest.raises(ValueError, match="source of 'x'"):
        Cited("x", address)


def test_a_section_and_its_only_table_have_one_heading():
    table = Table("Named", ("Name", "Value"), (("a", "1"),))
    page = render_html(Document("T", (), (Section("Named", (table, table)),)))
    assert (page.count("<h2>Named</h2>"), page.count("<h3>Named</h3>")) == (1, 1)


def test_html_marks_numbers_badges_and_details():
    page = render_html(DOCUMENT)
    value = '1.50<br><span class="detail">(1 to 2)</span>'
    assert f'<td class="number" data-label="Value (unit)">{value}</td>' in page
    assert '<span class="badge good">fine</span><br><span class="detail">(really)</span>' in page


def test_markdown_escapes_what_it_would_take_for_markup():
    text = render_markdown(DOCUMENT)
    assert r"\<script>" in text
    assert r"\[bold\]\|\`\*" in text
    assert "![A](plots/a.png)" in text
    assert "| 1.50 (1 to 2) |" in text
    assert "fine (really) |" in text


@pytest.mark.parametrize("text", ["p <0.001", "97.04 ± 0.35", "R & D", "a - b"])
def test_markdown_leaves_plain_text_alone(text):
    assert escaped(text) == text


def test_markdown_fences_are_longer_than_what_they_hold():
    document = Document("T", (), (Section("S", (Code("a ```` b"),)),))
    assert "`````\na ```` b\n`````" in render_markdown(document)


def test_markdown_rows_have_as_many_cells_as_the_header():
    rows = [line for line in render_markdown(DOCUMENT).splitlines() if line.startswith("| ")]
    assert len(rows) == 3
    assert len({row.replace(r"\|", "").count("|") for row in rows}) == 1


def test_the_terminal_shows_text_as_it_is():
    assert EVIL in print_table(TABLE, 200)


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_a_table_never_exceeds_the_terminal(width):
    table = Table("T", ("Task", "Long words"), (("Fashion-MNIST", "equivalent 97.04 ± 0.35"),))
    assert all(len(line) <= width for line in print_table(table, width).splitlines())


def test_words_stay_whole_while_there_is_room():
    table = Table("T", ("Task", "Score"), (("Fashion-MNIST", "97.04 ± 0.35"),))
    assert fit_columns(table, 18) == [13, 5]
    assert fit_columns(table, 25) == [13, 12]
    assert fit_columns(table, 10) == [5, 5]
