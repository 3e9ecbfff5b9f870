"""`rankcast serve`: engines over HTTP, durable, safe to expose.

A request passes the gate (`gate`: token, limits, body), which looks up its command (`commands`) and calls its
handler (`handlers`). Everything that touches an engine is a work item for the one writer thread of its stream
(`stream`), which answers after the sync. Deltas go to the log (`log`) and to the receivers (`hub`).
"""
