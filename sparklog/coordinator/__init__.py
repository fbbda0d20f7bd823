"""The service that coordinates a cluster.

Read leading/ first: it elects the process that leads, and orders its work. Then read http/ (the routes) and access/
(the rights of callers). watching/ has metrics and samples, and page/ the web pages.

Safety never depends on a coordinator: the chain orders all commands, from coordinators and from other writers.
"""
