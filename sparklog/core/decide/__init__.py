"""What a command leads to in a given state: records, an earlier result, or an error. Nothing here changes the state.

Read command.py first: it checks what every command is checked for, in order, and finds the file of its kind.
"""
