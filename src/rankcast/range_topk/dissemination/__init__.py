"""Tiles for a content-driven network: what `RangeTopK.disseminate` sends, loaded on first use."""
