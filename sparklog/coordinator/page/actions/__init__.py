"""Changes made on the web pages: form -> plan -> commands. A user needs the right, and `page.writes` must be true.

Read `action_routes.py` first; each action is one entry of `action_list.py`.
"""
