"""Stores in Google Cloud Storage (gs://) and Azure (abfs://).

Read store.py first: it is one adapter for both. gcs.py and azure.py hold all that differs, the requests themselves.
send_once.py sends each of them at most once.
"""
