"""The controllers and kubelets of the emulated cluster, one file each."""
