"""Jobs that compare stored data with the chain, and repair it: verify and recovery."""
