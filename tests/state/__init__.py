"""Tests of snapshots, journal and shard."""
