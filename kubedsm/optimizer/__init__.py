"""Pure functions from cluster snapshots to decisions on placing, migrating and packing pods."""
