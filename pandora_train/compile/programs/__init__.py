"""Step programs over a table or a graph, and SQUALL's token lists."""
