"""Estimators: fits, updates, files, diagnostics and explanations of models."""
