"""What each job of maintenance would do, and when one is due, decided from the state.

Read retention.py first, the shortest. The jobs themselves are in sparklog/maintenance.
"""
