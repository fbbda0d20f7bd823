"""Changes made on the web pages, by users who have the right and if `page.writes` is true: form -> plan -> commands.

Read `action_routes.py` first; each action is one entry of `action_list.py`.
"""
