"""`RangeTopK`: the k best objects in a range, kept current [Range]."""
