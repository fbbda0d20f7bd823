"""What clients and coordinators say to each other over HTTP: messages.py has requests and replies, errors.py errors.

Bodies are MessagePack.
"""
