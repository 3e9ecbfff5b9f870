"""Measuring: declared cases, seeded workloads, records, a report.

`cases/` declares cases (one module a family), `workloads/` makes their inputs (one module a paper),
`baselines/` holds what engines are measured against, `runner.py` says what a case is and measures it,
`records.py` keeps one JSON line a measurement and says what became slower, `report.py` turns the lines into
one HTML page.
"""
