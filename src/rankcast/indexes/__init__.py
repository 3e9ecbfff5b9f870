"""Data structures with insert, delete and query, each a small set of named arrays."""
