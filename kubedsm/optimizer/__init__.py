"""Pure decisions about snapshots: placing, migrating and packing pods, and the policy."""
