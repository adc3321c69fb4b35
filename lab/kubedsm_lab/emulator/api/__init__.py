"""Store, and the API server's handling of each request.

No time passes here, and no controller acts.
"""
