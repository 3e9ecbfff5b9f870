"""`GeoTextTopK`: the k best recent messages for a place and some words [Geo]."""
