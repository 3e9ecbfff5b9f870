"""`CoveringTable`: which subscriptions a router must forward [Covering]."""
