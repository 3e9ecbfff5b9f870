"""What [Geo] compares with: continuous queries in covering cells (CIQ)."""
