"""Changes made on the web pages: form -> plan -> commands.

A user needs the rights for the commands, and the cluster's config `page.writes` must be true.

Read `action_routes.py` first; each action is one entry of `action_list.py`.
"""
