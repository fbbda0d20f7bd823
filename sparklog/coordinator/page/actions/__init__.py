"""What people with the right can change from the pages, if `page.writes` is true: form -> plan -> commands.

Read `action_routes.py` first; each action is one entry of `action_list.py`.
"""
