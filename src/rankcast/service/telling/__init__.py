"""Receivers of deltas: server-sent events, WebSockets, tiles for gateways."""
