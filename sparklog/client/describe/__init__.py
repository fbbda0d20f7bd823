"""Topics, entries and records in the forms that people and programs see."""
