"""The papers' tables and figures as benchmark cases."""
