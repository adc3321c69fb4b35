"""Who decides: KubeDSM and the schedulers it is compared with, one a file."""
