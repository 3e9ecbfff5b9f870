"""Kernels of `RangeTopK`: object tree, influence regions, painting, lists."""
