"""The decisions themselves: pure functions of snapshots, each layer on those below it.

No I/O, no clock, no chance but what is handed in; policies > moving > placing > packing > goals >
rules > world.
"""
