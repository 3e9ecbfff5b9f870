"""What engines are measured against: plain, honest implementations that no user would be ashamed of.

They answer the same questions on the same arrays, in one process and one thread, and know no index.
"""
