"""Messages between clients and coordinators over HTTP, a file for each subject.

Begin with `messages.py` and `error_messages.py`. Bodies are MessagePack, or JSON if the client asks for it.
"""
