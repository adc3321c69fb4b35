"""Forms that can be read beside the paper, and the enumeration of all there is.

They stay in the wheel: the ratios of `bench` are taken against them on the machine at hand.
"""
