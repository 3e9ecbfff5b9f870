"""Input and output: rows of any form become checked NumPy columns; ids and deltas become Arrow."""
