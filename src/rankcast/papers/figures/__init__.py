"""The papers' tables and figures as benchmark cases; `rankcast.bench.cases` imports them by name."""
