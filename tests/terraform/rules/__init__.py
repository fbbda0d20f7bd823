"""What a deployment must be: each rule is a function that returns what breaks it, one sentence for each resource.

A rule takes a `Deployment`, so it judges a plan and what was applied alike. rules.py lists them all.
"""
