"""What users pass in, checked once and read as blocks of rows."""
