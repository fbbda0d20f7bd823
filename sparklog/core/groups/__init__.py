"""Consumer groups: the members that share partitions, who of them is silent, and what people are shown of a group."""
