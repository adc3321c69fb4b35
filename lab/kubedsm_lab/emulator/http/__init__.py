"""HTTP of the API server: routes, watches, tables, discovery and media types.

`api` decides what a request does.
"""
