"""Reports: one document, rendered as a page, as Markdown and in the terminal."""
