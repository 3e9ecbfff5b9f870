"""One seeded city in which all five families of engines work on the same restaurants, streets and people."""
