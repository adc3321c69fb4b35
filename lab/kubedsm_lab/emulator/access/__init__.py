"""Authentication and authorization: users, tokens, RBAC and admission policies, without HTTP."""
