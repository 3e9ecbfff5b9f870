"""The service from Python: `rankcast.Client`, and `rankcast.AsyncClient` for those who await.

`calls` says what each call sends and how its answer is read (`answers`); `resuming` decides when something is
tried again and reads server-sent events; `clients` is what a user holds. Nothing but httpx is needed, and
pyarrow where tables are sent.
"""
