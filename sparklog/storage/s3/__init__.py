"""Stores in S3 buckets. Read store.py first, then bucket.py.

A conditional write is sent in one of three ways. A body of up to 512 KiB is sent by small_requests.py, a larger one by
bucket.py (`put_once_if_absent` in both), and one of more than 8 MiB is sent in parts by upload.py.
storage/conditional_write.py decides when to send a write again, and what an answer means.

Requests take two ways: small ones go through s3fs (small_requests.py), bulk bodies over plain connections (bulk.py).
client.py holds both. aws_session.py finds keys, endpoint and region. answers.py classifies the outcome of a request.
"""
