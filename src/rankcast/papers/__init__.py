"""What exists to compare with: methods of the papers, loaded only when asked for by name."""
