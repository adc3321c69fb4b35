"""What is decided beyond the bounds of the exact algorithms, beside the best there is."""
