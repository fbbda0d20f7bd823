"""Commands about topics: their partitions, replicas, segments, and the groups that read them."""
