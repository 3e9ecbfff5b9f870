"""What an operator uses: tokens, backups, a live view."""
