"""Systems: each file is one way to work on a question, with one ``solve``."""
