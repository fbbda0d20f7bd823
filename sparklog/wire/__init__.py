"""What clients and coordinators say to each other over HTTP, a file for each subject.

Begin with `messages.py` and `errors.py`. Bodies are MessagePack, or JSON for those who ask for it.
"""
