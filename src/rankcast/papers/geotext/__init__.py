"""The baseline of [Geo]: covering cells of a quadtree (CIQ)."""
