"""Topics, entries and records in the form in which people and programs see them."""
