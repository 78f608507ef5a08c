"""Handles: follow and steer runs of this process and of others."""
