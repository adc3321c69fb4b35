"""What is sent and answered: routes, watches, tables, discovery, formats.

What a request does is decided in `api`.
"""
