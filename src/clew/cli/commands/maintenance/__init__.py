"""The commands that check, copy and delete what a store holds."""
