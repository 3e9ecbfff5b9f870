"""The door: rows of any form in, checked NumPy columns out; ids and deltas back to Arrow."""
