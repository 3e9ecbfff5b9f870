"""The oracles: every family answered by short, obvious NumPy.

They are shipped as `method="scan"` or `index="scan"`: what every test compares with, the baseline of every
benchmark, and what a user turns to when in doubt. They keep no results: whatever is asked is computed from
the live subscriptions and items, so there is nothing that could go stale.
"""
