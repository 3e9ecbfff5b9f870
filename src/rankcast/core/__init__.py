"""What an engine is: its frame, its state on disk, the laws it keeps."""
