"""Migration suggester, capacity packing, and the measured effect of migrations of running pods."""
