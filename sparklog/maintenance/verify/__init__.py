"""Jobs that compare what is stored with the chain, and repair it: verify and recovery."""
