"""Answers to what is asked on the page: why, and what if."""
