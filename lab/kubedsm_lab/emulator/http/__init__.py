"""HTTP layer of the emulated API server: routes, watches, tables, discovery, media types.

The package `api` decides about the requests.
"""
