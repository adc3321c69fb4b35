"""Assembly of the scheduler: leader election, live configuration, reflectors, pause switch."""
