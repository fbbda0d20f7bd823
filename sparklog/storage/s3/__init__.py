"""Stores in S3 buckets. Read store.py first, then bucket.py.

A conditional write is sent in one of three ways: by bucket.py (`put`) above 512 KiB, by small_requests.py
(`put_if_absent`) up to that, and in parts by upload.py (`publish`). storage/conditional_write.py decides when to send
it again, and what an answer means.

Requests take two ways: small ones go through s3fs (small_requests.py), bulk bodies over plain connections (bulk.py).
client.py holds both. aws_session.py finds keys, endpoint and region. answers.py classifies the outcome of a request.
"""
