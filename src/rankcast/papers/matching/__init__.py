"""Indexes of [Ranked]: interval, segment, IR- and SOPT-R-trees, the threshold algorithm."""
