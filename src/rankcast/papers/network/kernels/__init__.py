"""Kernels of the network simulator."""
