"""Requests to an API server: reads, writes, leases, and the rights that they need."""
