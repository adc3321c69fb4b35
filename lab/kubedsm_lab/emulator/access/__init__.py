"""Authentication and authorization: users, tokens, Roles, bindings and admission policies.

Independent of HTTP.
"""
