"""Commands about the cluster, its stores, its chain and the processes that serve it."""
