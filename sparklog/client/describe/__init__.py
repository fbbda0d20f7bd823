"""Topics, entries and records in the forms that people and programs see. Read topic_description.py first."""
