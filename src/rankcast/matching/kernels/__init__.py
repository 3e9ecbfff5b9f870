"""Kernels of `RankedMatcher`: box tree, interval grid, inverted lists."""
