"""Demonstrations: each engine at work on a small seeded world, shown as it goes."""
