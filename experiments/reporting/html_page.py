"""A document as one HTML file that needs nothing else: no script, no network, no other file."""

import base64
from html import escape

from experiments.reporting.document import (
    Badge,
    Block,
    Bullets,
    Cell,
    Code,
    Document,
    Figure,
    Section,
    Table,
    text_of,
)
from experiments.reporting.html_style import STYLE

# The browser is told to refuse whatever the page does not contain itself.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"

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
    blocks = "\n".join(render_block(block) for block in section.blocks)
    return f'<section id="s{number}">\n<h2>{escape(section.title)}</h2>\n{blocks}\n</section>'


def _table(table: Table) -> str:
    header = "".join(
        f'<th scope="col"{_alignment(table, j)}>{escape(name)}</th>'
        for j, name in enumerate(table.header)
    )
    rows = "\n".join(f"<tr>{_row(table, row)}</tr>" for row in table.rows)
    note = f'<p class="note">{escape(table.caption)}</p>' if table.caption else ""
    return (
        f'<div class="block"><h3>{escape(table.title)}</h3>\n<div class="scroll"><table>\n'
        f"<thead><tr>{header}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>{note}</div>"
    )


def _row(table: Table, row: tuple[Cell, ...]) -> str:
    cells = [f'<th scope="row">{_cell(row[0])}</th>']
    cells += [f"<td{_alignment(table, j)}>{_cell(row[j])}</td>" for j in range(1, len(row))]
    return "".join(cells)


def _alignment(table: Table, column: int) -> str:
    return "" if column < table.text_columns else ' class="number"'


def _cell(cell: Cell) -> str:
    first, _, rest = (escape(part) for part in text_of(cell).partition("\n"))
    if isinstance(cell, Badge):
        first = f'<span class="badge {cell.tone}">{first}</span>'
    return f'{first}<br><span class="detail">{rest}</span>' if rest else first


def _figure(figure: Figure) -> str:
    dark = ""
    if figure.dark_svg is not None:
        source = _data_uri(figure.dark_svg)
        dark = f'<source media="(prefers-color-scheme: dark)" srcset="{source}">'
    return (
        f'<figure class="block"><h3>{escape(figure.title)}</h3>\n'
        f'<div class="scroll"><picture>{dark}'
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
