"""Commands about the cluster, its stores, its chain and the processes that serve it. Read cluster_verbs.py first."""
