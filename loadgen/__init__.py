"""Load for services: what makes it, sends it and takes it; and what both command lines share.

That is how they end, and how they write files.
"""
