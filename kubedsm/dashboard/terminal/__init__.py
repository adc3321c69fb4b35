"""The page on a terminal: a picture that is updated in place, or a line for each news."""
