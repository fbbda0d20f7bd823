"""What each job of maintenance would do, decided from the state: roll, retain, compact, recover, verify, delete."""
