"""Relation graphs that [Covering] compares with: G* and the strict poset."""
