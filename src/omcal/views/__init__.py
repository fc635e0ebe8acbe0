"""Input of the user as checked views that are read in blocks of rows."""
