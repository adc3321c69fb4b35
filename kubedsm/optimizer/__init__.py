"""Pure decisions about snapshots: placing, moving, packing, and the policies that combine them."""
