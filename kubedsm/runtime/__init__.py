"""The asyncio shell: events in, decisions asked for, plans carried out and verified.

All that changes with time lives here; what is decided is decided in `core`, what is called in
`cluster`.
"""
