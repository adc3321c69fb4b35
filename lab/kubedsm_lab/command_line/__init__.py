"""Options and help of the lab commands."""
