"""Charts as SVG of our own: panels that stand side by side, or one below the other on a phone.

What is drawn of which results is said by those who ask; here is how it looks.
"""
