"""Authentication and authorization: users, tokens and RBAC, without HTTP."""
