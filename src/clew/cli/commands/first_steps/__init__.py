"""The commands for people who try Clew for the first time."""
