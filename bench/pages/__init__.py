"""Pages and decisions among 100,000 deals."""
