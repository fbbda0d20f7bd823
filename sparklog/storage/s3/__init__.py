"""Stores in S3 buckets. Read store.py first, then bucket.py, which has every rule of a conditional write.

Requests take two ways: small ones go through s3fs (small_requests.py), bulk bodies over plain connections (bulk.py).
client.py holds both. aws_session.py finds keys, endpoint and region. answers.py classifies the outcome of a request.
"""
