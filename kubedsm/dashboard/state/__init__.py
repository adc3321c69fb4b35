"""Rows of the page, kept up to date, and the sentences derived from them."""
