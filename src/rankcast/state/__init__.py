"""Durable engines: a shard is an engine, a snapshot of it and a journal of the batches since."""

from rankcast.state.batches import Token
from rankcast.state.shard import Shard

__all__ = ["Shard", "Token"]
