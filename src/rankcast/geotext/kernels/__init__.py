"""Kernels of `GeoTextTopK`: bounds, postings, verification, skyband buffers, searches."""
