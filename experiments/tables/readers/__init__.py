"""Rows of text from what commands wrote into their folders."""
