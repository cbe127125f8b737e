"""The search: candidates proposed, built, checked and measured until the budget is spent."""
