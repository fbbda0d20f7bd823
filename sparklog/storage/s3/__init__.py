"""Stores in S3 buckets. Read store.py first, then bucket.py: every rule of a conditional write is there.

Requests go two ways: small ones through s3fs (control.py), bulk bodies over urllib3 (bulk.py); client.py holds both.
answers.py sorts what came of a request, session.py finds keys, endpoint and region, reads.py and upload.py cut bodies.
"""
