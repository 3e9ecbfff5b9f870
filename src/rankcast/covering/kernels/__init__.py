"""Kernels of `CoveringTable`: buckets, k-d tree, relation graph."""
