"""Data objects with their indexes as a whole: look, copy, delete, and find those that nothing names."""
