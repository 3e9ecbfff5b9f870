"""Measuring: declared cases, seeded workloads, records, a report.

`case.py` says what a case is, `cases/` declares them (one module a family), `workloads/` makes their inputs
(one module a paper), `baselines/` holds what engines are measured against, `runner.py` measures, `records.py`
keeps one JSON line a measurement, `report.py` turns the lines into one HTML page, and `records.py` says what
became slower.
"""
