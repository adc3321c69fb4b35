"""Who asks, and whether they may: users, tokens, and what Role and binding objects allow.

Nothing here knows of HTTP.
"""
