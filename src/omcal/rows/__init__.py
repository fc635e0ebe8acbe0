"""Where the n rows live: everything of length n, behind three methods."""
