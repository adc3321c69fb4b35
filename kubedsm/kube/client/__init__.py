"""One API server: requests, streams, credentials, and the meaning of its errors.

It knows bytes and statuses, not objects.
"""
