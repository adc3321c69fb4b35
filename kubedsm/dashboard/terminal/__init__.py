"""The dashboard in a terminal: a continuously updated picture, or a line per activity."""
