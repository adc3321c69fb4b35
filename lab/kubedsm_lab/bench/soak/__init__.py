"""Long run of many tenants, one of which is odd, while schedulers are disturbed."""
