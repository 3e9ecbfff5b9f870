"""`rankcast serve`: engines over HTTP, durable, safe to expose.

A request passes the gate (`requests.gate`: token, limits, body), which looks up its command (`commands`) and
calls its handler (`requests.handlers`). Everything that touches an engine is a work item for the one writer
thread of its stream (`streams.stream`), which answers after the sync. Deltas go to the log and to receivers
(`telling.hub`).
"""
