"""The check of terraform/ that needs no account: `make tf-check`.

Start with rules.py (what a deployment must be), then plans.py (where its resources come from) and mutations.py
(proof that the check notices). What needs Terraform or its AWS provider is skipped by name on a machine without them.
"""
