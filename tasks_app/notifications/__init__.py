"""What people are told: rows, in the commit of what they tell of."""
