"""Rows of the dashboard, kept up to date, and the sentences derived from them."""
