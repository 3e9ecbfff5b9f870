"""Hypothesis profiles: `fast` in `make test`, `thorough` in `make test-all`."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
settings.register_profile("fast", UNHURRIED, max_examples=100, derandomize=True)
settings.register_profile("thorough", UNHURRIED, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))
