"""Laboratory for KubeDSM: an emulated cluster, replay of scenarios, chaos and benchmarks."""

__version__ = "0.1.0"
