"""How Django's own forms and lists write dates: as our pages do."""
