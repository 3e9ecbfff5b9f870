"""Webhooks: deltas posted to a URL. The store keeps them, delivery posts, outbound guards where to."""
