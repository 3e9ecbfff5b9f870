"""The service from Python: `rankcast.Client`, and `rankcast.AsyncClient` for asynchronous code.

`calls` defines what each call sends and how its answer is read (`answers`); `resuming` decides when to retry
and reads server-sent events; `clients` has the public classes. Only httpx is needed, and pyarrow to send
tables.
"""
