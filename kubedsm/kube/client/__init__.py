"""Client of an API server: requests, streams, credentials, and classified errors.

Responses are bytes with statuses; `wire` decodes objects.
"""
