"""What each role of a deployment asks of S3, recorded from real runs, against the policies of terraform/modules/iam.

Read test_rights.py first: it has the claims. recorded.json is what recording.py recorded of the runs in role_runs.py.
"""
