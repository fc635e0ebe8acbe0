"""Storage and processing of the rows: places with the same interface."""
