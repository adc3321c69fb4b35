"""Commands of the laboratory: demo, emulate, replay, record, compare and chaos."""
