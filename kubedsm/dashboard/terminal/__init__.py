"""What is seen, on a terminal: a picture that changes in place, or a line for each thing new."""
