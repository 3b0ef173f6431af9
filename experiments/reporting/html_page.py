"""A document as one HTML file that needs nothing else: no script, no network, no other file."""

import base64
from html import escape

from experiments.reporting.document import (
    Badge,
    Block,
    Bullets,
    Cell,
    Cited,
    Code,
    Document,
    Figure,
    Section,
    Table,
    text_of,
)
from experiments.reporting.html_style import STYLE
from experiments.reporting.number_text import NONE

DARK, PHONE = "(prefers-color-scheme: dark)", "(max-width: 640px)"
# The browser is told to refuse whatever the page does not contain itself.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"

MOST_CARDS = 12
"""Rows of a table that become cards on a phone; a longer one would be lost among them."""
FEWEST_LABELS = 4
"""Columns of a table that become lines of a card; fewer fit side by side, in lines that break."""
LONGEST_LINE = 28
"""Letters that stand beside their label on a card."""
LONGEST_NAME = 60
"""Letters that the first column takes in from another; more are no name."""

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header>
<h1>{title}</h1>
{lead}
<nav aria-label="Sections">{links}</nav>
</header>
<main>
{sections}
</main>
</body>
</html>
"""


def render_html(document: Document) -> str:
    """Return the document as a page with its figures inside; all text is escaped."""
    sections = list(enumerate(document.sections, start=1))
    return PAGE.format(
        policy=escape(POLICY),
        title=escape(document.title),
        style=STYLE,
        lead="\n".join(f'<p class="lead">{escape(line)}</p>' for line in document.lead),
        links="\n".join(f'<a href="#s{k}">{escape(part.title)}</a>' for k, part in sections),
        sections="\n".join(_section(k, part) for k, part in sections),
    )


def render_block(block: Block) -> str:
    """Return one block as HTML."""
    match block:
        case Table():
            return _table(block)
        case Figure():
            return _figure(block)
        case Bullets():
            return "<ul>" + "".join(f"<li>{escape(item)}</li>" for item in block.items) + "</ul>"
        case Code():
            return f"<pre><code>{escape(block.text)}</code></pre>"
        case str():
            return f"<p>{escape(block)}</p>"


def _section(number: int, section: Section) -> str:
    rendered = [render_block(block) for block in section.blocks]
    if any(isinstance(b, Table | Figure) and b.title == section.title for b in section.blocks[:1]):
        heading = f"<h3>{escape(section.title)}</h3>\n"  # that of the section says it
        rendered[0] = rendered[0].replace(heading, "", 1)
    blocks = "\n".join(rendered)
    return f'<section id="s{number}">\n<h2>{escape(section.title)}</h2>\n{blocks}\n</section>'


def _table(table: Table) -> str:
    few = len(table.rows) <= MOST_CARDS and len(table.header) >= FEWEST_LABELS
    folded = () if few else _folded(table)
    header = _row(table, table.header, folded, "col")
    rows = "\n".join(f"<tr>{_row(table, row, folded, 'row')}</tr>" for row in table.rows)
    note = f'<p class="note">{escape(table.caption)}</p>' if table.caption else ""
    slim = len(table.header) < FEWEST_LABELS
    kind = ' class="cards"' if few else ' class="slim"' if slim else ""
    return (
        f'<div class="block"><h3>{escape(table.title)}</h3>\n'
        f'<div class="scroll"><table{kind}>\n'
        f"<thead><tr>{header}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>{note}</div>"
    )


def _folded(table: Table) -> tuple[int, ...]:
    """Return the columns that join the first one on a phone: they say whose the numbers are."""
    if table.text_columns == len(table.header):
        return ()
    return tuple(
        j
        for j in range(1, table.text_columns)
        if all(len(text_of(row[j])) <= LONGEST_NAME for row in table.rows)
    )


def _row(table: Table, row: tuple[Cell, ...], folded: tuple[int, ...], scope: str) -> str:
    """Return the cells of a row; folded ones stand twice, and a style shows them once."""
    also = "".join(f'<span class="also">{_cell(row[j])}</span>' for j in folded)
    # A bare number heads a card only with its name.
    bare = scope == "row" and text_of(row[0]).replace(".", "").isdecimal()
    name = f' data-label="{_label(table, 0)}"' if bare else ""
    cells = [f'<th scope="{scope}"{name}>{_cell(row[0])}{also}</th>']
    for j in range(1, len(row)):
        kinds = _kinds(table, j, row[j], folded)
        if scope == "col":
            cells.append(f'<th scope="col"{kinds}>{_cell(row[j])}</th>')
        else:
            cells.append(f'<td{kinds} data-label="{_label(table, j)}">{_cell(row[j])}</td>')
    return "".join(cells)


def _label(table: Table, column: int) -> str:
    """Return what a column is called, in one line."""
    return escape(" ".join(text_of(table.header[column]).split()))


def _kinds(table: Table, column: int, cell: Cell, folded: tuple[int, ...]) -> str:
    """Say of a cell that it is a number, text that needs lines of its own, folded, or a dash."""
    names = []
    if column >= table.text_columns:
        names.append("number")
    elif len(text_of(cell)) > LONGEST_LINE:
        names.append("long")
    if column in folded:
        names.append("folded")
    if text_of(cell) == NONE:
        names.append("none")
    return f' class="{" ".join(names)}"' if names else ""


def _cell(cell: Cell) -> str:
    first, _, rest = (escape(part) for part in text_of(cell).partition("\n"))
    if isinstance(cell, Badge):
        first = f'<span class="badge {cell.tone}">{first}</span>'
    whole = f'{first}<br><span class="detail">{rest}</span>' if rest else first
    if isinstance(cell, Cited):
        whole = f'<a href="{escape(cell.address)}" rel="noreferrer">{whole}</a>'
    return whole


def _figure(figure: Figure) -> str:
    drawings = {"": figure.svg, DARK: figure.dark_svg}
    if figure.phone is not None:  # the first that fits is taken
        light, dark = figure.phone
        drawings = {
            "": figure.svg,
            f"{PHONE} and {DARK}": dark,
            PHONE: light,
            DARK: figure.dark_svg,
        }
    sources = "".join(
        f'<source media="{media}" srcset="{_data_uri(svg)}">'
        for media, svg in drawings.items()
        if media and svg is not None
    )
    return (
        f'<figure class="block"><h3>{escape(figure.title)}</h3>\n'
        f'<div class="scroll"><picture>{sources}'
        f'<img src="{_data_uri(figure.svg)}" alt="{escape(figure.title)}"></picture></div>\n'
        f"<figcaption>{escape(figure.caption)}</figcaption></figure>"
    )


def _data_uri(svg: str) -> str:
    """Return a drawing as an address that holds it.

    An image apart from the page keeps its ids and styles to itself. What stands before `<svg` (a
    document type with an address on the web) means nothing to a browser and is left out.
    """
    drawing = svg[max(svg.find("<svg"), 0) :]
    return "data:image/svg+xml;base64," + base64.b64encode(drawing.encode()).decode()
