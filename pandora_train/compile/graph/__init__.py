"""Graph labels (s-expressions, paths, SPARQL), each a file over ``sets.py`` or ``frames.py``."""
