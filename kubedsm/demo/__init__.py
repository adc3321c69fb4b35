"""A minute of KubeDSM at work on the emulated cluster of the paper, over real HTTP."""
