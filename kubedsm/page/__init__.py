"""What is seen: the cluster, its moves and decisions as tables of rows, told, kept, and served.

What a row says is worked out here; how it is drawn is the page's own (`static`), or a terminal's.
Nothing here changes the cluster.
"""
