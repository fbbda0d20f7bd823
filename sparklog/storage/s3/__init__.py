"""Stores in S3 buckets. Read store.py first, then bucket.py.

A conditional write is one PUT (`Bucket.put_once_if_absent`), or parts and a completion if it has more than 8 MiB
(upload.py). storage/conditional_write.py decides when to send a write again, and what an answer means.

Requests take two ways. Conditional writes, which must be sent once, and all bodies of objects go over plain connections
(bulk.py). The others, which may be repeated, go through s3fs (small_requests.py). client.py holds both. aws_session.py
finds keys, endpoint and region. answers.py classifies the outcome of a request.
"""
