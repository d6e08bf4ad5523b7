"""SQL labels, under SQLite's semantics: ``query.py`` is the entry."""
