"""Numba kernels: arrays in, arrays out. They know no Arrow, no classes, no ids from outside."""
