"""A document as Markdown, with tables that also read well as plain text."""

import re

from experiments.reporting.document import (
    Block,
    Bullets,
    Cell,
    Cited,
    Code,
    Document,
    Figure,
    Table,
    text_of,
)

SPECIAL = re.compile(r"([\\`*_\[\]|#~$]|<(?=[A-Za-z/!?])|&(?=[#\w]+;))")
"""What Markdown would take for markup inside a line."""


def render_markdown(document: Document) -> str:
    """Return the document as GitHub-flavoured Markdown; figures are linked by their path."""
    parts = [f"# {escaped(document.title)}", *map(escaped, document.lead)]
    for section in document.sections:
        parts.append(f"## {escaped(section.title)}")
        parts += [render_block(block) for block in section.blocks]
    return "\n\n".join(parts) + "\n"


def render_block(block: Block) -> str:
    """Return one block, without the empty line that follows it."""
    match block:
        case Table():
            return _table(block)
        case Figure():
            title = escaped(block.title)
            return f"### {title}\n\n![{title}]({block.path})\n\n{escaped(block.caption)}"
        case Bullets():
            return "\n".join(f"- {escaped(item)}" for item in block.items)
        case Code():
            fence = "`" * max(3, 1 + max(map(len, re.findall("`+", block.text)), default=0))
            return f"{fence}\n{block.text}\n{fence}"
        case str():
            return escaped(block)


def escaped(text: str) -> str:
    """Return text that Markdown shows as it is, on one line."""
    return SPECIAL.sub(r"\\\1", " ".join(text.split()))


def _table(table: Table) -> str:
    cells = [[_cell(cell) for cell in row] for row in (table.header, *table.rows)]
    widths = [max(3, *(len(row[j]) for row in cells)) for j in range(len(table.header))]
    is_text = [j < table.text_columns for j in range(len(widths))]
    lines = [
        "| "
        + " | ".join(
            cell.ljust(width) if text else cell.rjust(width)
            for cell, width, text in zip(row, widths, is_text, strict=True)
        )
        + " |"
        for row in cells
    ]
    rule = (
        "-" * width if text else "-" * (width - 1) + ":"
        for width, text in zip(widths, is_text, strict=True)
    )
    lines.insert(1, "| " + " | ".join(rule) + " |")
    parts = [f"### {escaped(table.title)}", "\n".join(lines)]
    return "\n\n".join([*parts, escaped(table.caption)] if table.caption else parts)


def _cell(cell: Cell) -> str:
    text = escaped(text_of(cell))
    return f"[{text}]({cell.address})" if isinstance(cell, Cited) else text
