"""The experiments of the paper: cells run under limits, their records, tables and figures."""
