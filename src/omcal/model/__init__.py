"""What the user fits, saves and asks."""
