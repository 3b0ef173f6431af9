"""The tables of the pages: run what they were measured by, keep the rows, write them in place."""
