"""Stores in S3 buckets. Read store.py first, then bucket.py, which has every rule of a conditional write.

Requests go two ways: small ones through s3fs (small_requests.py), bulk bodies over plain connections (bulk.py).
client.py holds both, session.py finds keys, endpoint and region, and answers.py classifies the outcome of a request.
"""
