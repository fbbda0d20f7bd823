"""Decides the outcome of a command in a given state: records, an earlier result, or an error. Changes no state.

Read command.py first: it makes the checks that every command goes through, in order, and then calls the file for that
kind of command.
"""
