"""Jobs that compare stored data with the chain, and repair it: verify and recovery.

Read verify_job.py first, then recovery_job.py and the rule of its repairs, next_step.py.
"""
