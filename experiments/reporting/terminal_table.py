"""A document's table in the terminal."""

from rich import box
from rich.table import Table as RichTable
from rich.text import Text

from experiments.reporting.document import Badge, Cell, Table, text_of

STYLES = {"good": "bold green", "bad": "bold red", "open": "bold yellow"}


def rich_table(table: Table, width: int) -> RichTable:
    """Return the table for a rich console of that width; no text is taken for rich's markup."""
    columns = len(table.header)
    padding = 1 if sum(_widths(table, words=False)) + 3 * (columns - 1) <= width else 0
    drawn = RichTable(
        title=Text(table.title, style="bold"),
        title_justify="left",
        caption=Text(table.caption, style="dim") if table.caption else None,
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, padding),
    )
    room = width - (1 + 2 * padding) * (columns - 1)
    for j, (name, fitted) in enumerate(zip(table.header, fit_columns(table, room), strict=True)):
        is_text = j < table.text_columns
        drawn.add_column(
            Text(text_of(name)),
            width=fitted,
            justify="left" if is_text else "right",
            overflow="fold",
        )
    for row in table.rows:
        drawn.add_row(*(_text(cell) for cell in row))
    return drawn


def fit_columns(table: Table, room: int) -> list[int]:
    """Return widths that share `room`: first every word whole, then the lines that lack least.

    Left to itself, rich makes columns equally wide and cuts words for that.
    """
    widths, wanted = _widths(table, words=True), _widths(table, words=False)
    spare = room - sum(widths)
    for j in sorted(range(len(widths)), key=lambda j: wanted[j] - widths[j]):
        if wanted[j] - widths[j] <= spare:
            spare -= wanted[j] - widths[j]
            widths[j] = wanted[j]
    while sum(widths) > room and max(widths) > 1:
        widths[widths.index(max(widths))] -= 1
    return widths


def _widths(table: Table, *, words: bool) -> list[int]:
    """Return the length of the longest word, or of the longest line, in each column."""
    columns = zip(table.header, *table.rows, strict=True)
    return [
        max(
            (len(part) for cell in column for part in _parts(text_of(cell), words=words)),
            default=1,
        )
        for column in columns
    ]


def _parts(text: str, *, words: bool) -> list[str]:
    return text.split() if words else text.split("\n")


def _text(cell: Cell) -> Text:
    return Text(text_of(cell), style=STYLES[cell.tone] if isinstance(cell, Badge) else "")
