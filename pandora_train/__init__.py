"""Questions over tables, databases and knowledge graphs, distilled into a small local model."""

__version__ = "0.1.0"
