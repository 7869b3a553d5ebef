"""Briefs as people write them: the form, drafts, the preview and the submission."""
