"""Kernels of moving queries: R-tree, scores, safe zones, skylines."""
