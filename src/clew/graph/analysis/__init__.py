"""What follows from the nodes of a graph: its inputs, links, loops and regions, and whether it is valid."""
