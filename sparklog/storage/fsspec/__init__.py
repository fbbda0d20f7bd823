"""Stores in Google Cloud Storage (gs://) and Azure (abfs://), through fsspec's file systems gcsfs and adlfs.

Read store.py first: it is one adapter for both. gcs.py and azure.py hold all that differs, the requests themselves.
"""
