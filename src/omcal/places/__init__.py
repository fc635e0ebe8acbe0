"""Where the rows live and are worked on, each place behind the same interface."""
