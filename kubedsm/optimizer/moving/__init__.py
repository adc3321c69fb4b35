"""Migrations of running pods: selection by benefit, execution order and explanations."""
