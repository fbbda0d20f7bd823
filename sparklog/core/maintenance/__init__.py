"""Plans of the maintenance jobs: the work of each job, and when it is due, decided from the state.

Read retention_rule.py first, the shortest. The jobs themselves are in sparklog/maintenance.
"""
