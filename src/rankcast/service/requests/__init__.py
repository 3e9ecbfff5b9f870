"""What a request meets: the gate, its handler, rows in and out."""
