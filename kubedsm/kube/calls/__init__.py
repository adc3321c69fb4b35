"""What is asked of an API server, request by request.

None of them tries again: whether that is right, only the caller knows.
"""
