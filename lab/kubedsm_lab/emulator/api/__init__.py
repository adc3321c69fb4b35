"""API server without HTTP: object store, and validation, admission and storage of requests.

No time passes here, and no controller acts.
"""
