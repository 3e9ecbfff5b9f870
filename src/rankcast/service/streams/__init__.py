"""Streams: each an engine in a shard with one writer thread, its records and its clock."""
