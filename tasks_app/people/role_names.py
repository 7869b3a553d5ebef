"""The names of the roles, for what is read before there is a database (settings); their rights: `roles`."""

ROLE_NAMES = ("Buyer", "Approver", "Ad Ops", "Finance", "Auditor", "Integration", "Administrator")
